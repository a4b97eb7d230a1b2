"""The patterns of the rule-based extractor: how statements about oneself open, in ten languages.

General linguistic patterns; nothing in here is specific to a data set.
"""

import re
from itertools import chain
from typing import Any

IDENTITY = "Personal_Background/Identity"
EDUCATION = "Personal_Background/Education"
OCCUPATION = "Personal_Background/Occupation"
LOCATION = "Personal_Background/Location"
BODY = "States_Experiences/Physical_State"
MIND = "States_Experiences/Mental_State"
PAST = "States_Experiences/Past_Experience"
GOAL = "Thoughts/Goals/Short_Term"
CURIOSITY = "Thoughts/Curiosity"
INTERACTION = "Preferences/Interaction_Preferences"
FORGET = "Constraints_and_Boundaries/Do_Not_Remember"
# What a lead says of a row: the value begins with the verb of the clause, in the third person.
VERB = "<verb>"
# No labels: the topic of the clause chooses one (see TOPICS).
TASTE, MINE, GENERAL = "taste", "mine", "general"


_JOBS = (
    r"(?:teacher|engineer|developer|programmer|nurse|doctor|lawyer|designer|manager|writer|author"
    r"|artist|musician|driver|chef|accountant|consultant|scientist|researcher|freelancer"
    r"|entrepreneur|analyst|journalist|director|photographer|therapist|owner|founder|translator"
    r"|technician|editor|electrician|professor)\b"
)
_PARTNERS = r"(?:wife|husband|spouse|girlfriend|boyfriend|fianc[eé]e?|partner)\b"
_FAMILY = (
    r"(?:sons?|daughters?|kids?|child|children|childrens|baby|mother|father|mom|mum|dad|parents"
    r"|brothers?|sisters?|grandma"
    r"|grandpa|grand(?:mother|father|parents)|uncle|aunt|cousin|nephew|niece)(?:-in-law)?\b"
)
_KIN = (
    rf"(?:{_PARTNERS}|{_FAMILY}|(?:best )?friends?\b|boss\b|coworkers?\b|colleagues?\b|roommate\b)"
)
_PETS, _CARS = (
    r"(?:dogs?|cats?|puppy|kitten|parrot|hamster|rabbit|horse)\b",
    r"(?:car|truck|motor(?:cycle|bike))\b",
)
_THINGS = (
    rf"(?:{_PETS}|{_CARS}|(?:house|apartment|garden|laptop|phone|camera|guitar|piano|bike|business"
    rf"|shop)\b)"
)
_MOODS = (
    r"(?:sad|depressed|anxious|lonely|stressed|afraid|scared|worried|tired|happy|excited"
    r"|overwhelmed|upset)"
)
_ILLS = (
    r"(?:asthma|diabetes|adhd|autism|anxiety|depression|cancer|arthritis|insomnia|migraines?"
    r"|epilepsy)\b"
)
# Adverbs before a verb; never given back, so that none of them is taken for the verb.
_OFTEN = (
    r"(?:(?:also|just|often|now|still|always|do|even|once again|sometimes|too"
    r"|(?!(?:re|ap|sup|im|com|multi)ply\b|rely\b|fly\b)\w+ly) )*+"
)
_I, _AM, _HAVE = rf"i {_OFTEN}", rf"i(?: a|')?m {_OFTEN}", rf"i(?: ha|')ve {_OFTEN}"
# «I want to know», «I have a question» open a request and say nothing about the user.
_NO_TASK = (
    r"(?!(?:know|ask|see|hear|say|make sure|understand|get|have|be able|add|change|use|write|create"
    r"|find|show)\b)"
)
_NO_THING = (
    r"(?!(?:\w+ )?(?:question|problem|issue|task|list|text|doubt|look|code|table|file|few|lot|error"
    r"|idea)s?\b)"
)
_DO_NOT = r"(?:please )?(?:don'?t|do not|never) "
# Verbs and adjectives that steer a conversation and say nothing lasting about who is speaking.
_TALK = (
    r"(?!(?:ask|say|said|mean|meant|think|thought|guess|see|saw|get|got|know|knew|understand"
    r"|understood|hope|wonder|wish|thank|appreciate|believe|tell|told|send|sent|paste|upload"
    r"|provide|attach|show|give|gave|copy|try|tried|need|want|wanted|do|did|does|will|would|can"
    r"|could|can't|cannot|should|must|may|might|am|was|were|are|have|had|has|don't|didn't|won't"
    r"|wouldn't|couldn't|shouldn't|haven't|wasn't|aren't|not|never|just|only|added|changed|removed"
    r"|noticed|forgot|feel like|swear|bet|promise|suppose|assume|agree|repeat)\b)"
)
_NO_TALK = (
    r"(?!(?:[\w'-]+ ){0,3}?(?:questions?|problems?|issues?|tasks?|texts?|codes?|prompts?|requests?"
    r"|point|messages?|name|bad|apologies|input|output|errors?|instructions?|character)\b)"
)
_TALKING = (
    r"(?!(?:sorry|sure|not|asking|talking|referring|wondering|thinking|telling|saying|giving"
    r"|sending|getting|seeing|having|trying|going|looking|confused|done|ready|back|here|there|fine"
    r"|ok|okay|good|glad|happy|afraid|your|my|the|a|an|you|so|very|too|all|just|only|also|in|on|at"
    r"|to|of|about|doing|able|aware|really|right|wrong|bored|tired|just|curious|testing|kidding"
    r"|joking|supposed|assuming)\b)"
)

# Opening of a clause, label, confidence, lead: the value reads lead + what follows the opening
# (lookaheads keep a word in it). The first match wins, so special rows stand above general ones.
# fmt: off
ENGLISH: tuple[tuple[str, str, float, str], ...] = (
    (r"my (?:first |full )?name(?: is|'s) ", IDENTITY, 0.95, "Name is "),
    (rf"{_AM}(?=\d\d(?: ?years?| ?y/?o)?\b)", IDENTITY, 0.95, "Age "),
    (rf"{_AM}(?:originally )?from ", LOCATION, 0.95, "From "),
    (rf"(?:{_AM}living|{_I}(?:live|reside)) (?=in |on |with |near |at )", LOCATION, 0.95, "Lives "),
    (rf"(?:{_I}|{_HAVE})(?=(?:was born|grew up|moved) (?:in|on|near|to|from) )",
     LOCATION, 0.95, ""),
    (rf"(?:{_AM}working|{_I}work) (?=as |at |for |in )", OCCUPATION, 0.95, "Works "),
    (rf"{_AM}(?:an? |the )(?=(?:[\w-]+ ){{0,3}}?{_JOBS})", OCCUPATION, 0.95, ""),
    (rf"{_AM}an? (?=(?:[\w-]+ ){{0,4}}?student\b)", EDUCATION, 0.95, ""),
    (rf"(?:{_I}|{_HAVE}|{_AM})(?=(?:graduated|majored|studying|(?:started )?learning)\b)",
     EDUCATION, 0.80, ""),
    (rf"{_AM}(?=allergic to |vegan|vegetarian|diabetic|pregnant)", BODY, 0.95, ""),
    (rf"{_I}(?:suffer from |have (?=(?:\w+ )?{_ILLS}))|{_AM}suffering from ", BODY, 0.95, "Has "),
    (rf"(?:{_I}feel|{_AM}feeling) (?!like |free|that\b)(?=\w+ \w)|{_AM}(?=(?:very "
     rf"|so )?{_MOODS} \w)", MIND, 0.80, "Feels "),
    (rf"{_I}(?:can'?t stand|hate|despise|(?:do|did)(?:n'?t| not) {_OFTEN}(?:like|enjoy)) ",
     TASTE, 0.95, "Dislikes "),
    (rf"{_I}(?:prefer|enjoy) |i(?:'d| would) (?:rather|prefer) (?!if )", TASTE, 0.95, "Prefers "),
    (rf"(?:{_I}|{_HAVE})(?:loved?|adore|like) (?!how |what )", TASTE, 0.80, "Likes "),
    (rf"{_AM}(?:an? )?(?:(?:big|huge) )?(?:fan of|fond of|into|passionate about) ",
     TASTE, 0.95, "Likes "),
    (r"my favou?rite (?=[\w ]{2,30} (?:is|are) )", TASTE, 0.95, "Favorite "),
    (rf"{_AM}(?:interested in|curious about) ", CURIOSITY, 0.80, "Curious about "),
    (rf"{_I}(?:fully )?(?:support|agree with) ", "Thoughts/Opinions/Positive", 0.80, "Supports "),
    (rf"(?:{_I}(?:have|own)|i'?ve got) (?=(?:[\w'-]+ ){{0,4}}?(?:{_KIN}|{_THINGS}))",
     MINE, 0.95, "Has "),
    (rf"{_I}(?=(?:bought|adopted|own|run) (?:an?|my|two) )", MINE, 0.80, ""),
    (rf"{_I}have an? {_NO_THING}", MINE, 0.65, "Has a "),
    (rf"(?:{_I}use|{_AM}using|{_HAVE}been using) ", MINE, 0.80, "Uses "),
    (rf"my (?={_KIN} (?:is|has|was|works|lives|loves|likes|keeps|needs|wants|speaks|plays) )",
     MINE, 0.65, ""),
    (rf"my (?={_THINGS} (?:is|has|was|keeps|needs) )", MINE, 0.65, ""),
    (rf"(?:{_AM}planning|we(?:'re| are) planning|{_I}plan) (?=to |on )", GOAL, 0.95, "Plans "),
    (rf"{_AM}(?:going to |gonna )(?!give|ask|send|show|tell|provide)",
     "Plans/Schedule", 0.65, "Plans to "),
    (r"i(?:'ll| will) be (?=(?:on|in|at|away|starting|moving) )",
     "Plans/Schedule", 0.80, "Will be "),
    (r"my (?:\w+ )?(?:dream|goal|ambition) is to ", "Thoughts/Goals/Long_Term", 0.95, "Wants to "),
    (rf"{_AM}(?=(?:working on|building|developing|preparing|starting|looking for) )",
     GOAL, 0.80, ""),
    (rf"(?:{_I}(?:want|wish|hope|aim|intend|aspire) to|i wanna|i(?:'d| would) (?:like|love) to"
     rf"|{_AM}(?:trying|hoping) to) {_NO_TASK}", GOAL, 0.50, "Wants to "),
    (rf"(?:{_I}|{_HAVE})(?=(?:used to|once|worked|studied|played|lost|quit|won|visited) )",
     PAST, 0.80, ""),
    (rf"{_I}(?=(?:eat|drink|play|go to|commute|speak|teach|run|watch|read|collect|drive|cook"
     r"|train) \w)", TASTE, 0.65, ""),
    (rf"{_AM}an? (?!(?:bit|little|lot)\b)", IDENTITY, 0.65, ""),
    (r"(?:please )?(?:(?:from now on|in future),? (?!i\b)|(?=always [a-z]+ ))",
     INTERACTION, 0.95, "Prefers the assistant to "),
    (rf"(?:{_DO_NOT}(?:remember|store)|(?:please )?forget) (?:that |(?=what |my ))",
     FORGET, 0.95, "Do not remember "),
    (rf"{_DO_NOT}(?:mention|bring up) ",
     "Constraints_and_Boundaries/Disliked_Topics", 0.80, "No talk of "),
    (rf"{_DO_NOT}(?=(?:use|say|call me|add|repeat|explain) (?!it\b))",
     INTERACTION, 0.65, "Prefers the assistant not to "),
    (rf"(?:{_I}(?:need|want)|i(?:'d| would) like) (?!you\b|to\b|the following){_NO_THING}",
     GOAL, 0.50, "Wants "),
    (rf"(?:{_AM}|we(?:'re| are) )(?=(?:[a-z]+ing|[a-z]+ed) \w){_TALKING}", GENERAL, 0.50, ""),
    (r"(?:i|we) (?:was|were|have been|had been) (?=[a-z]+(?:ing|ed|orn) \w)", PAST, 0.50, ""),
    (rf"{_HAVE}(?=[a-z]+(?:ed|t|n|d|k|e) \w){_TALK}", PAST, 0.50, ""),
    (rf"{_I}{_TALK}(?=[a-z]+ \w)", GENERAL, 0.50, VERB),
    (rf"we {_OFTEN}{_TALK}(?=[a-z]+ \w)", GENERAL, 0.50, VERB),
    (rf"(?:{_I}|we )have (?=an? {_NO_THING}|\w+ \w){_TALK}", MINE, 0.50, "Has "),
    (rf"my (?=[\w' -]{{3,40}} (?:is|are|was|were) ){_NO_TALK}", GENERAL, 0.50, ""),
)
# What is the user's own, wherever a sentence names it; the value is «Has a» with the words
# themselves.
_OF_ONE = (
    rf"(?:(?:\d+|two|three|four|older|younger|little|big|late|ex) )?(?:{_KIN}|{_PETS}|{_CARS})"
)
OWN = re.compile(
    rf"\bmy ({_OF_ONE}(?: and (?:my |\d+ |two |three |four )?{_OF_ONE})*)", re.IGNORECASE
)
# «my Corolla», «my ThinkPad X1»: what is called by a name with a capital is a thing of the user's.
NAMED_OWN = re.compile(
    r"\b[Mm]y ((?:[A-Z][a-z][\w-]*|[A-Z]{2,}\w* ?\d[\w-]*)(?: (?:[A-Z]\w*|\d[\w-]*)){0,3})"
)

# What makes a request of a subject: «can you tell me about», «what are some», «how do I».
REQUEST = re.compile(
    r"(?:(?:please|ok|okay|so|and|now|also|hi|hello|hey|thanks|then|but|great|yes|no)[\s,!.]+)*"
    r"(?:(?:(?:can|could|would|will) (?:you|u|i|we)|i (?:want|need|would like|'d like)(?: you)?"
    r"(?: to)?|pls|please|help me(?: to| with)?)\s+)*"
    r"(?:(?:tell|give|show|teach|recommend|suggest|explain|describe|write|make|create|generate|find"
    r"|list|provide|analy[sz]e|compare|summari[sz]e|discuss|get|draft|design|plan|help)\b"
    r"(?: (?:me|us|about|more|some|an?|the|out|of|on|how|what|to|for|all|is|are|with)\b)*"
    r"|how (?:\w+ )?(?:do|can|could|would|should|does|did|is|are|to)\b(?: (?:i|you|we|one|make"
    r"|get)\b)?"
    r"|what(?:'s| is| are| was| were| do| does| did| about| if| would| should)?\b(?: (?:the|some"
    r"|an?|your|best)\b)*"
    r"|why (?:is|are|do|does|did)\b|who (?:is|are|was|were)\b|where (?:is|are|can|do)\b"
    r"|(?:which|is|are|do|does|did|should|am)\b)\s*",
    re.IGNORECASE,
)
# Other languages keep the whole clause as the value.
LATIN: tuple[tuple[str, str, float], ...] = (
    (r"(?:me llamo|mi nombre es|me chamo|mi chiamo|je m'appelle|ich heiße|mein name ist) ",
     IDENTITY, 0.95),
    (r"de ahora en adelante|a partir de (?:ahora|agora)|d'ora in poi|désormais|ab jetzt|von nun an",
     INTERACTION, 0.95),
    (r"no (?:recuerdes|guardes) |não (?:lembre|guarde) |ne retiens pas |merk dir nicht ",
     FORGET, 0.95),
    (r"(?:yo |eu |io )?(?:(?:vivo|resido|moro|abito) (?:en|em|no|na|a|in)|so[yu] d[eoa]) ",
     LOCATION, 0.95),
    (r"(?:yo |eu |io )?(?:trabajo|trabalho|lavoro) (?:como|come|en|em|in|de|para|per) ",
     OCCUPATION, 0.95),
    (r"(?:no )?me (?:gusta|encanta|molesta)n? |(?:non )?mi piac\w+ |(?:eu )?(?:não )?gosto d\w+ ",
     TASTE, 0.80),
    (r"(?:yo |eu |io )?(?:prefiero|prefiro|preferisco|odio|odeio|detesto|adoro) ", TASTE, 0.80),
    (r"mi (?=espos|marido|mujer|novi|hij|m?p?a[dm][ráe]|herman|abuel|amig|jefe)|uso |utilizo "
     r"|tengo una? (?=perr|gat|coche|hij)", MINE, 0.80),
    (r"(?:o |a )?(?:meu|minha) (?=espos|marido|namorad|filh|mãe|pai|irmã|amig)|(?:eu )?uso ",
     MINE, 0.80),
    (r"(?:il |la )?mi[oa] (?=moglie|marito|figli|madre|padre|fratello|sorella|ragazz|amic)",
     MINE, 0.80),
    (r"(?:j'habite|je vis (?:à|en|au|avec)|je viens d[eu']) ?", LOCATION, 0.95),
    (r"je travaille (?:comme|dans|chez|à|pour|en) |j'étudie |je suis étudiant", OCCUPATION, 0.95),
    (r"soy alérgic|padezco |sufro de |sou alérgic|sono allergic|je suis allergique"
     r"|ich bin allergisch|ich leide ", BODY, 0.95),
    (r"(?:j'(?:aime|adore)|je (?:n'aime pas|déteste|préfère(?! que))) ", TASTE, 0.80),
    (r"(?:mon|ma|mes) (?=mari|femme|fil|enfant|mère|père|frère|sœur|copine|ami|chien)|j'utilise ",
     MINE, 0.80),
    (r"ich (?:wohne|lebe|komme aus) ", LOCATION, 0.95),
    (r"ich (?:arbeite (?:als|bei|in|im|für)|studiere|lerne) ", OCCUPATION, 0.95),
    (r"ich (?:mag|liebe|hasse|bevorzuge|(?:esse|höre|spiele|lese) gern\w*) ", TASTE, 0.80),
    (r"meine? (?=frau|mann|freund|sohn|tochter|kind|mutter|vater|hund)|ich (?:benutze|nutze) ",
     MINE, 0.80),
)
# Chinese, Russian, Arabic and Hebrew
OTHER_SCRIPTS: tuple[tuple[str, str, float], ...] = (
    (r"我叫|我的名字|我是(?=一[个名位]|.{0,10}学生)", IDENTITY, 0.80),
    (r"我(?:现在|目前)?(?:住在|来自|定居)", LOCATION, 0.95),
    (r"我(?:现在|目前)?(?:在.{1,15}(?:工作|上班|读书|上学)|从事|就读|毕业于)|我的(?:工作|职业)是",
     OCCUPATION, 0.95),
    (r"我(?:(?=对.{1,12}过敏|怀孕)|得了|患有)", BODY, 0.95),
    (r"我(?:很|非常|真的|有点|感到|觉得)+(?=难过|焦虑|抑郁|伤心|害怕|孤独|开心|紧张|担心)",
     MIND, 0.80),
    (r"我(?:很|非常|最|特别|比较|更|也|真的|不)*(?:讨厌|受不了|喜欢|热爱|爱[吃看听])(?!你)",
     TASTE, 0.95),
    (r"我[的家]?(?=[老妻丈夫][婆公子夫]|[男女]朋友|儿子|女儿|孩子|妈妈|爸爸|父亲|母亲|朋友|同事|老板)",
     MINE, 0.80),
    (r"我(?:有|养了?)[一两三几]?[只条辆台套]|我(?:现在|目前|一直)?(?:在用|用的是|使用的?是)",
     MINE, 0.80),
    (r"我(?:打算|计划|正在准备|想要?(?=学|去|成为))|我的(?:梦想|目标)是", GOAL, 0.80),
    (r"请?(?:以后|今后|从现在开始|不要再|别再)请?", INTERACTION, 0.80),
    (r"(?:меня зовут|(?:[أا]نا )?اسمي|שמי|קוראים לי) ", IDENTITY, 0.95),
    (r"с этого момента |впредь |отныне |من الآن فصاعدا|מעכשיו |מהיום ", INTERACTION, 0.95),
    (r"я (?:живу|из|родил(?:ся|ась)) ", LOCATION, 0.95),
    (r"я (?:работаю|по профессии|учусь|студент|изучаю)", OCCUPATION, 0.95),
    (r"у меня (?:аллергия|диабет|болит)|мне (?:очень )?(?:грустно|страшно|плохо)", BODY, 0.80),
    (r"(?:я (?:очень )?(?:не )?(?:люблю|ненавижу|предпочитаю)|мне (?:очень )?(?:не )?нрав\w+) ",
     TASTE, 0.80),
    (r"мо[йяи] (?=(?:жена|муж|сын|дочь|мама|папа|отец|брат|сестра|друг|дети)\b)|я использую ",
     MINE, 0.80),
    (r"(?:[أا]نا )?(?:[أا]عيش|[أا]سكن) ", LOCATION, 0.95),
    (r"(?:[أا]نا )?(?:[أا]عمل|[أا]درس|طالبة?) ", OCCUPATION, 0.95),
    (r"(?:[أا]نا )?(?:لا )?(?:[أا]حب|[أا]كره|[أا]فضل) ", TASTE, 0.80),
    (r"(?=(?:زوجتي|زوجي|ابني|ابنتي|[أا]مي|[أا]بي|صديقي|صديقتي) )|(?:عندي|لدي) (?=كلب|قط|سيارة|بيت)",
     MINE, 0.80),
    (r"אני (?:גרה?|מתגוררת?) ", LOCATION, 0.95),
    (r"אני (?:עובדת?|לומדת?|סטודנט|סטודנטית) ", OCCUPATION, 0.95),
    (r"אני (?:מאוד )?(?:לא )?(?:אוהבת?|שונאת?|מעדיפה?) ", TASTE, 0.80),
    (r"(?=(?:אשתי|בעלי|אמא שלי|אבא שלי|הבן שלי|הבת שלי) )|יש לי (?=כלב|חתול|רכב|דירה)", MINE, 0.80),
)

# The words of a clause that choose its label; the last row of a group is the default.
TOPICS: dict[str, tuple[tuple[str, str], ...]] = {
    TASTE: (
        (r"\b(?:eat|food|cook|drink|coffee|tea|meat|fruit|spicy|comer|comida|manger|essen)|[吃喝菜]"
         r"|есть", "Preferences/Food"),
        (r"\b(?:music|songs?|sing|jazz|rock|música|musique|musik)\b|音乐|歌|музык",
         "Preferences/Music"),
        (r"\b(?:read|reading|books?|novels?|leer|libros?|lire|livres?|lese\w*)\b|书|小说|читать",
         "Preferences/Reading"),
        (r"\b(?:sports?|football|soccer|tennis|gym|running|swim\w*|hik\w+|fútbol)\b|运动|球|спорт",
         "Preferences/Sports"),
        (r"\b(?:travel\w*|flights?|trips?|viajar|vuelos|voli|reisen)\b|旅|путешеств",
         "Preferences/Travel_Mode"),
        (r"", "Preferences/Entertainment"),
    ),
    GENERAL: ((r"", "UNMAPPED"),),
    MINE: (
        (rf"\b(?:{_PETS}|perr|gat[oa]|cachorr|cane|chien|chat|hund|katze|соба|кош|кот)|[狗猫]|كلب|قط"
         r"|כלב|חתול", "Possessions/Pet"),
        (rf"\b(?:{_CARS}|coche|carro|macchina|voiture|auto)\b|车|машин|سيارة|רכב",
         "Possessions/Car"),
        (r"\b(?:house|apartment|garden|casa|maison|haus)\b|房|квартир|بيت|דירה",
         "Possessions/House"),
        (rf"\b(?:{_PARTNERS}|espos|marido|mujer|novi|namorad|moglie|marito|mari|femme|copine|frau"
         r"|mann|жена|муж)|[妻夫]|老[婆公]|[男女]朋友|زوج|אשתי|בעלי",
         "Social_Relationships/Partners"),
        (r"\b(?:friends?|roommate|amig\w+|amis?|amic\w|freund|друг)\b|朋友|صديق|חבר",
         "Social_Relationships/Friends"),
        (r"\b(?:boss|coworkers?|colleagues?|jefe|chefe?|patron)\b|同事|老板",
         "Social_Relationships/Colleagues"),
        (rf"\b(?:{_FAMILY}|hij|filh|figli|fils|fille|enfant|kind|sohn|tochter|madre|padre|m[ãè]e"
         r"|pai|mère|père|irmã|mutter|vater|сын|дочь|мама|папа|отец|брат|сестра|дети)|子|女|妈|爸|亲"
         r"|[أا]مي|[أا]بي|ابن|שלי", "Social_Relationships/Family"),
        (r"", "Possessions/Important_Items"),
    ),
}
# fmt: on


Row = tuple[re.Pattern[str], str, float, str | None]
"""A row as it is tried; without a lead the whole clause is the value."""


def _rows(*tables: tuple[tuple[Any, ...], ...]) -> list[Row]:
    rows: list[Row] = []
    for pattern, label, confidence, *lead in chain(*tables):
        rows.append(
            (re.compile(pattern, re.IGNORECASE), label, confidence, lead[0] if lead else None)
        )
    return rows


BY_SCRIPT = {True: _rows(ENGLISH, LATIN), False: _rows(OTHER_SCRIPTS)}
"""The rows to try, by whether a clause begins with a Latin letter."""
