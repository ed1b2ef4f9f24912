def write_page(results):
    pass
