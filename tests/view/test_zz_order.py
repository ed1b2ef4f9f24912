import sys
sys.path.insert(0,'/tmp/wt/kept')
import pytest
from memorisk.view.review import PairReview
def test_x(run):
    r=PairReview(run)
    for p in range(len(r)):
        print("PLACE",p,len(r.rows(p)),r.images(p)[0][:8],r.images(p)[1][:8],repr(r.text(p,"score")), r.text(p,"found_by"))
