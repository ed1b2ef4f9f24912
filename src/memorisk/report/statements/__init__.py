"""Privacy statements: start with `statement`. `envelope` contains and `signatures` sign it.

`json_documents` reads and checks it, `model_card` writes it for people, `officer` for a data-protection
officer. Only the signatures and that page need more than Python alone.
"""
