"""How `src/rue/domains/data/norkyst.npz` was made: `python -m benchmarks.make_norkyst norkyst_subset.nc norkyst.npz`.

The input holds hourly surface currents of MET Norway's NorKyst-800m forecast (ROMS, 800 m grid) of 16 to 18 November
2015 with the model's bathymetry. It was cut from two files of OpenDrift's test data, which MET Norway's licences (NLOD
and CC BY 4.0) cover: u, v from 16Nov2015_NorKyst_z_surface/norkyst800_subset_16Nov2015.nc, and h, lat, lon from
14Jan2016_NorKyst_z_3d/NorKyst-800m_ZDEPTHS_his_00_3Dsubset.nc, the same grid. Here all 67 hours are kept and the places
are cropped to the box below (the paper's, 61.1 to 61.2 N, 4.5 to 4.65 E, with a margin). Speeds are whole mm/s as in
the source, depths whole cm, places millionths of a degree; nothing is interpolated.
"""

import sys
from dataclasses import replace
from pathlib import Path

from rue.domains.ocean import read_currents

BOX = (61.07, 61.25, 4.42, 4.75)
CREDIT = (
    "Based on data from MET Norway (The Norwegian Meteorological Institute), NorKyst-800, NLOD / CC BY 4.0; "
    "subset and rotated."
)


def main(source: str, target: str) -> None:
    currents = replace(read_currents(source, box=BOX), credit=CREDIT)
    currents.save(target)
    hours, rows, columns = currents.east.shape
    print(f"{target}: {hours} hours, {rows} x {columns} places, {Path(target).stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
