"""What changes when the models are trained otherwise (paper 000, sections 4 and 5, A.1, A.3, A.10).

`defences` trains under other regimes (`bench defences`), `interventions` on images without colour, structure or
detail (`--intervene`), `placebo` on fresh splits, for images that no model saw (`--placebo`), `privacy` with
label-noise canaries, against the promise of a private training. `intervention_effects` holds the table of an
intervention.
"""
