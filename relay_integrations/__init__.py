"""relay: a large reasoning model and a small one take turns inside one generation.

`RelayEngine` is the composite model; everything else here is what it takes and gives. Importing this loads neither torch nor any
framework.
"""

from __future__ import annotations

from relay_integrations.backends.base import Backend
from relay_integrations.chat.messages import Message, ToolCall
from relay_integrations.chat.tags import ThinkTags
from relay_integrations.config import FailureRules, Prices, RequestOptions
from relay_integrations.cues.profile import CueProfile, load_profile
from relay_integrations.engine import RelayEngine, RelayWarning
from relay_integrations.errors import (
    BackendError,
    ConfigError,
    ConstraintFailed,
    CueProfileError,
    EngineClosed,
    GenerationError,
    MessageError,
    ModelLoadError,
    NotSupported,
    PromptTooLong,
    RelayError,
)
from relay_integrations.events import (
    Event,
    Handoff,
    ReasoningClosed,
    RelayFailed,
    RelayFinished,
    SegmentFinished,
    SegmentStarted,
    TextDelta,
    ToolCallDelta,
    Usage,
    event_from_dict,
)
from relay_integrations.policies import POLICIES, Policy, make_policy
from relay_integrations.result import RelayChoice, RelayResult, fold
from relay_integrations.sampling import Sampling
from relay_integrations.stream import AsyncRelayStream, RelayStream

__version__ = "0.1.0"

__all__ = [
    "POLICIES",
    "AsyncRelayStream",
    "Backend",
    "BackendError",
    "ConfigError",
    "ConstraintFailed",
    "CueProfile",
    "CueProfileError",
    "EngineClosed",
    "Event",
    "FailureRules",
    "GenerationError",
    "Handoff",
    "Message",
    "MessageError",
    "ModelLoadError",
    "NotSupported",
    "Policy",
    "Prices",
    "PromptTooLong",
    "ReasoningClosed",
    "RelayChoice",
    "RelayEngine",
    "RelayError",
    "RelayFailed",
    "RelayFinished",
    "RelayResult",
    "RelayStream",
    "RelayWarning",
    "RequestOptions",
    "Sampling",
    "SegmentFinished",
    "SegmentStarted",
    "TextDelta",
    "ThinkTags",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "__version__",
    "event_from_dict",
    "fold",
    "load_profile",
    "make_policy",
]
