"""Does a generator begin to memorize while it trains?"""
