"""All hostile inputs: bombs, lying headers, cut files, values that are no pixels, odd paths."""

from tests.hostile.arrays import hdf5_files, idx_files, numpy_files
from tests.hostile.commands import HostileInput
from tests.hostile.medical import dicoms, niftis, tiffs
from tests.hostile.others import links, losses_tables, weights_files, yaml_files
from tests.hostile.rasters import rasters
from tests.hostile.tables import csvs, json_lines, shards


def hostile_inputs() -> list[HostileInput]:
    """All of them, always the same."""
    found = [
        *rasters(),
        *tiffs(),
        *niftis(),
        *dicoms(),
        *numpy_files(),
        *hdf5_files(),
        *idx_files(),
        *shards(),
        *csvs(),
        *json_lines(),
        *yaml_files(),
        *losses_tables(),
        *links(),
        *weights_files(),
    ]
    names = [(i.kind, i.name) for i in found]
    assert len(set(names)) == len(names)
    return found
