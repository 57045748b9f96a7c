"""A prompt, a relay and a parser in one chain. Runs offline, on the tiny pair that ships with relay.

python examples/langchain/chain.py
"""

from __future__ import annotations

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from langchain_relay import ChatRelay


def main() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("human", "{name} has {some} coins. {name} finds {more} more. How many coins does {name} have?")]
    )
    model = ChatRelay.tiny(temperature=0)

    chain = prompt | model | StrOutputParser()
    print("invoke:", chain.invoke({"name": "Mia", "some": 12, "more": 30}))

    print("stream: ", end="")
    for piece in chain.stream({"name": "Tom", "some": 55, "more": 16}):
        print(piece, end="", flush=True)
    print()

    message = (prompt | model).invoke({"name": "Ann", "some": 20, "more": 2})
    relay = message.response_metadata["relay"]
    print("reasoning:", message.additional_kwargs["reasoning_content"].strip())
    print(
        f"{relay['tokens']['large']} tokens by the large model, {relay['tokens']['small']} by the small one; handoffs: {relay['handoffs']}"
    )
    model.close()


if __name__ == "__main__":
    main()
