# The public names, and the module that each is loaded from: read by type checkers, and by __init__.py at run time.

from .errors import BigsmicError as BigsmicError
from .errors import ClusterError as ClusterError
from .errors import InputError as InputError
from .errors import PlanError as PlanError
from .errors import RunError as RunError
from .errors import StorageError as StorageError
from .estimators.kernel_rim import KernelRIM as KernelRIM
from .estimators.mic import MIC as MIC
from .estimators.mspc import MSPC as MSPC
from .estimators.mwca import MWCA as MWCA
from .estimators.rim import RIM as RIM
from .estimators.semisupervised import SemiSupervisedSMIC as SemiSupervisedSMIC
from .estimators.smic import SMIC as SMIC
from .numerics.mutual_information.lsmi import LSMIResult as LSMIResult
from .numerics.mutual_information.lsmi import lsmi as lsmi
from .numerics.mutual_information.mlmi import MLMIResult as MLMIResult
from .numerics.mutual_information.mlmi import mlmi as mlmi
from .pipeline import fit as fit
from .pipeline import plan as plan
from .result import Result as Result
from .scores import msp_score as msp_score

__version__: str
