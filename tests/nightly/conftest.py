import pytest
from nights import Machine


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine.zarr", seed=0)
