"""Which training images does a fine-tuned classifier remember (paper 000)?

Start with `run`. `evidence` is the score table, `analysis` computes a result from it. `losses` starts from tables
that exist already, `target` attacks the released model, `comparison` sets two runs side by side. `pages` holds the
reports, `retraining` the defences, the interventions and the canaries of private trainings, `explanations` the reasons.
"""
