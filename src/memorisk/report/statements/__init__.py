"""Privacy statements: start with `statement`. `envelope` holds and `signatures` sign it.

`json_documents` reads and checks it, `model_card` writes it for people. All but the signatures need Python alone.
"""
