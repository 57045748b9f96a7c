"""What is public, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import relay_integrations

PUBLIC = """
    POLICIES AsyncRelayStream Backend BackendError ConfigError ConstraintFailed CueProfile CueProfileError EngineClosed Event
    FailureRules GenerationError Handoff Message MessageError ModelLoadError NotSupported Policy Prices PromptTooLong ReasoningClosed
    RelayChoice RelayEngine RelayError RelayFailed RelayFinished RelayResult RelayStream RelayWarning RequestOptions Sampling
    SegmentFinished SegmentStarted TextDelta ThinkTags ToolCall ToolCallDelta Usage __version__ event_from_dict fold load_profile
    make_policy
""".split()
"""A name that goes from here breaks somebody's program: say so in the CHANGELOG."""

HEAVY = ("torch", "transformers", "vllm", "langchain_core", "llama_index", "numpy")


def python(code: str, *flags: str) -> str:
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these() -> None:
    assert sorted(relay_integrations.__all__) == sorted(PUBLIC)
    assert all(hasattr(relay_integrations, name) for name in PUBLIC)


def test_importing_loads_no_framework_and_warns_of_nothing() -> None:
    code = f"import sys, relay_integrations; print([m for m in {HEAVY} if m in sys.modules])"
    assert python(code, "-W", "error") == "[]"


def test_a_relay_over_scripted_backends_loads_no_framework_either() -> None:
    code = f"""if True:
        import sys
        from relay_integrations import CueProfile, RelayEngine
        from relay_integrations.backends.scripted import ScriptedBackend
        with RelayEngine(ScriptedBackend("a. So, b."), ScriptedBackend("a. So, b."), cue_profile=CueProfile.of("So")) as engine:
            assert engine.generate("hi").text == "a. So, b."
        print([m for m in {HEAVY} if m in sys.modules])"""
    assert python(code, "-W", "error") == "[]"


def test_a_process_that_forgets_to_close_an_engine_ends_all_the_same() -> None:
    code = """if True:
        from relay_integrations import RelayEngine
        from relay_integrations.backends.scripted import Reply, ScriptedBackend
        engine = RelayEngine(ScriptedBackend([Reply("a b c", stall_after=1)]), ScriptedBackend(), policy="large-only")
        events = engine.stream("hi")
        print(next(events).type)"""
    assert python(code, "-W", "error") == "segment_started"
