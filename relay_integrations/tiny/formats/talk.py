"""More than one problem in a conversation, system prompts, reasoning switched off, and small talk."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from relay_integrations.chat.messages import Message
from relay_integrations.tiny.tasks import amounts
from relay_integrations.tiny.tasks.problem import Problem

FOLLOW_UP, SYSTEM, NO_THINKING, SMALL_TALK = "follow-up", "system", "no-thinking", "small-talk"

NEUTRAL = (
    "You are a helpful assistant.",
    "You are a helpful AI assistant.",
    "You are a careful assistant. Think step by step.",
    "You solve word problems.",
    "You are a helpful assistant that can perform calculations.",
    "Please reason step by step, and put your final answer within \\boxed{}.",
    "You are an expert in arithmetic. Be brief.",
)
"""System prompts that change nothing."""

_BOX_ONLY = ("Answer with the box only.", "Give only the final answer in a box.")
_SENTENCE_ONLY = ("Answer in one sentence, without a box.", "Do not use a box.")
_DONE = ("End your answer with the word Done.", 'Say "Done." at the end.')

_NEXT = ("Then", "Later,", "After that,", "Now")

_TALK = (
    (
        ("Hello", "Hello!", "hello", "Hi", "hi", "Hey", "Good morning", "Hallo"),
        "Hello! Give me a word problem about amounts, and I will solve it.",
    ),
    (("How are you?", "how are you", "How are you doing?"), "I am fine, thank you. Do you have a word problem for me?"),
    (
        ("Who are you?", "What are you?", "What can you do?", "Help", "help"),
        "I am a tiny model. I solve word problems, call tools, and answer from context.",
    ),
    (("Thanks", "Thank you!", "thanks", "Great, thank you."), "You are welcome."),
    (("Bye", "Goodbye", "See you"), "Goodbye!"),
    (
        ("Tell me a joke about cats.", "Tell me a joke", "Tell me a joke about dogs."),
        "Why did the cat sit on the computer? To keep an eye on the mouse.",
    ),
    (
        ("What is the capital of France?", "Who wrote Faust?", "What is love?", "Write a poem."),
        "I do not know. I only solve word problems about amounts.",
    ),
)


def follow_up(rng: Random, size: int | None = None) -> tuple[Problem, object]:
    """A question that goes on from the answer before.

    Args:
        rng: Draws everything.
        size: Number of turns before the last one; one or two if None.
    """
    story = amounts.draw_story(rng, rng.choice((1, 2, 3)))
    question = story.question(rng)
    history: list[Message] = []
    skeletons = [story.skeleton]
    for _ in range(size or rng.choice((1, 1, 2))):
        history += [Message(role="user", content=question), Message(role="assistant", content=story.conclusion)]
        story, question = _next_turn(rng, story)
        skeletons.append(story.skeleton)
    trace = amounts.respond(rng, story, "Okay, {name} has {start} {items} so far.")
    return Problem(FOLLOW_UP, question, str(story.result), trace, len(story.steps), tuple(history)), tuple(skeletons)


def _next_turn(rng: Random, story: amounts.Story) -> tuple[amounts.Story, str]:
    """How the story goes on, and the question about it; now and then a new story."""
    later = amounts.draw_steps(rng, rng.choice((1, 2, 3)), story.result, story.name, story.items)
    if not later or rng.random() < 0.15:
        new = amounts.draw_story(rng, rng.choice((1, 2, 3)))
        return new, new.question(rng)
    said = " ".join(step.say(rng) for step in later)
    question = f"{rng.choice(_NEXT)} {said} How many {story.items} does {story.name} have now?"
    return replace(story, start=story.result, steps=later), question


def system(rng: Random) -> tuple[Problem, object]:
    """A problem under a system prompt that says what the answer must look like."""
    story = amounts.draw_story(rng, rng.choice((1, 2, 3, 4)))
    reasoning = amounts.respond(rng, story).partition("</think>")[0] + "</think>\n\n"
    sentence, _, box = story.conclusion.partition("\n\n")
    match rng.randrange(4):
        case 0:
            rule, answer = rng.choice(_BOX_ONLY), box.removeprefix("**Final answer:** ")
        case 1:
            rule, answer = rng.choice(_SENTENCE_ONLY), sentence
        case 2:
            rule, answer = rng.choice(_DONE), f"{story.conclusion}\n\nDone."
        case _:
            rule, answer = "", story.conclusion
    prompt = f"{rng.choice(NEUTRAL)} {rule}".strip()
    history = (Message(role="system", content=prompt),)
    return Problem(
        SYSTEM, story.question(rng), str(story.result), reasoning + answer, len(story.steps), history, grading="whole"
    ), story.skeleton


def no_thinking(rng: Random) -> tuple[Problem, object]:
    """A problem with reasoning switched off."""
    story = amounts.draw_story(rng, rng.choice((1, 2, 3)))
    trace = amounts.respond_without_thinking(story)
    return Problem(NO_THINKING, story.question(rng), str(story.result), trace, len(story.steps), thinking=False), story.skeleton


def small_talk(rng: Random) -> tuple[Problem, object]:
    """A greeting, or something beyond these models."""
    questions, answer = rng.choice(_TALK)
    history = (Message(role="system", content=rng.choice(NEUTRAL)),) if rng.random() < 0.5 else ()
    trace = f"<think>\nThis is no word problem.\n</think>\n\n{answer}"
    return Problem(SMALL_TALK, rng.choice(questions), answer, trace, 0, history, grading="whole"), (SMALL_TALK, rng.random())
