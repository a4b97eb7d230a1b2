import pytest

from alps.llm.replies import looks_like_refusal
from tests.llm.test_reading import SAID, TEXT, read, values


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("I'm sorry, but I can't help with that.", id="English"),
        pytest.param("I’m sorry, I cannot extract personal data.", id="English, curly apostrophe"),
        pytest.param("I cannot assist with this request.", id="English, cannot"),
        pytest.param("I won't do that.", id="English, won't"),
        pytest.param("I am unable to process this conversation.", id="English, unable"),
        pytest.param("**I apologize**, but this I must decline.", id="English, in bold"),
        pytest.param("抱歉，我无法处理这段对话。", id="Chinese, simplified"),
        pytest.param("對不起，我不能這樣做。", id="Chinese, traditional"),
        pytest.param("Lo siento, no puedo ayudar con eso.", id="Spanish"),
        pytest.param("Je suis désolé, mais je ne peux pas.", id="French"),
        pytest.param("Es tut mir leid, dabei kann ich nicht helfen.", id="German"),
        pytest.param("Desculpe, não posso ajudar com isso.", id="Portuguese"),
        pytest.param("Извините, я не могу помочь с этим.", id="Russian"),
        pytest.param("عذرًا، لا أستطيع المساعدة في ذلك.", id="Arabic"),
        pytest.param("מצטער, אני לא יכול לעזור בזה.", id="Hebrew"),
    ],
)
def test_a_refusal_in_prose_is_a_refusal(text: str):
    assert read(text).outcome == "refused"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The user is sorry that they can't eat nuts.", id="a report of regret"),
        pytest.param("I can recommend three restaurants near you.", id="an offer"),
        pytest.param("Sure, here is a poem about the sea.", id="an answer to the dialogue"),
        pytest.param("बिल्कुल समझ गया, यही टोन रखूंगा।", id="Hindi"),
        pytest.param("我可以帮你写这封信。", id="Chinese"),
        pytest.param(
            "I'm sorry to hear that you lost your job. How are you holding up?", id="sympathy"
        ),
        pytest.param("I can't wait to hear how the concert went!", id="anticipation"),
        pytest.param("I cannot. " + "The story went on and on. " * 100, id="a long text"),
    ],
)
def test_ordinary_prose_is_not_a_refusal(text: str):
    assert not looks_like_refusal(text)
    assert read(text).outcome == "unparsable"


def test_an_apology_before_usable_json_is_no_refusal():
    completion = read(f"Sorry for the wait! {TEXT}")
    assert values(completion) == SAID


def test_an_apology_with_json_of_another_shape_is_invalid():
    assert read('Sorry, I can only give {"error": "no memories"}').outcome == "invalid"
