# The public names, and the module that each is loaded from: read by type checkers, and by __init__.py at run time.

from .errors import BigsmicError as BigsmicError
from .errors import ClusterError as ClusterError
from .errors import InputError as InputError
from .errors import PlanError as PlanError
from .errors import RunError as RunError
from .errors import StorageError as StorageError
from .estimators import SMIC as SMIC
from .estimators_family import MSPC as MSPC
from .estimators_family import MWCA as MWCA
from .estimators_kernel import MIC as MIC
from .estimators_kernel import KernelRIM as KernelRIM
from .estimators_links import SemiSupervisedSMIC as SemiSupervisedSMIC
from .estimators_rim import RIM as RIM
from .information import LSMIResult as LSMIResult
from .information import lsmi as lsmi
from .likelihood import MLMIResult as MLMIResult
from .likelihood import mlmi as mlmi
from .pipeline import fit as fit
from .pipeline import plan as plan
from .result import Result as Result
from .separation import msp_score as msp_score

__version__: str
