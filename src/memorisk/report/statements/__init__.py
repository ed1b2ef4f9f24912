"""Privacy statements: start with `statement`. `envelope` holds and `signatures` sign it.

`json_documents` reads and checks it, `model_card` writes it for people, `officer_page` for a data-protection
officer. All but the signatures and that page need Python alone.
"""
