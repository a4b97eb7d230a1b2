"""Settings of `alps doctor`: those of the extensions that it examines."""

from typing import TYPE_CHECKING

from alps.extension import keys_of
from alps.keys import FrozenSettings

if TYPE_CHECKING:

    class DoctorSettings(FrozenSettings):
        """Settings of `alps doctor` from extensions."""

else:

    class DoctorSettings(*keys_of("doctor"), FrozenSettings):
        """Settings of `alps doctor`."""
