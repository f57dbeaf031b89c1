"""Small files of the tasks, records as `job=predict` reads them, and the modules with their formats."""

from importlib import import_module

# In srl, the seventh column has lemmas; "wound ... up" is one predicate, "Nothing ." has none, and
# two begin at "x - rays".
TREES = """\
# newdoc
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tIt\tit\tPRON\t_\t_\t4\tnsubj\t4:nsubj\t_
2\t's\tbe\tAUX\t_\t_\t4\tcop\t_\t_
3\ta\ta\tDET\t_\t_\t4\tdet\t_\t_
4\tmill pond\t_\tNOUN\t_\t_\t0\troot\t_\t_
4.1\tis\tbe\tVERB\t_\t_\t_\t_\t0:root\t_

1\tHush\t_\tINTJ\t_\t_\t0\troot\t_\t_
2\t!\t_\tPUNCT\t_\t_\t1\tpunct:x\t_\t_
"""
FILES = {
    "ner": "Ann\tB-PER\nruns\tO\n\nBo\tB-PER\n",
    "srl": """\
#begin document (nw/clock); part 000
nw/clock 0 0 Ada     NNP * -     -  - - * (ARG0*)  (ARG0* *        -
nw/clock 0 1 wound   VBD * wind  02 - - * (V*)     *)     *        -
nw/clock 0 2 clocks  NNS * -     -  - - * (ARG1*)  *      (R-ARG0* -
nw/clock 0 3 up      RP  * -     -  - - * (C-V*)   *      *)       -
nw/clock 0 4 and     CC  * -     -  - - * *        *      *        -
nw/clock 0 5 left    VBD * leave 01 - - * *        (V*)   (V*)     -

nw/clock 0 0 Nothing NN  * -     -  - - * -
nw/clock 0 1 .       .   * -     -  - - * -

nw/clock 0 0 x       NN  * -     -  - - * (V*)   (V*)   -
nw/clock 0 1 -       HYP * -     -  - - * *      *      -
nw/clock 0 2 rays    NNS * xray  01 - - * (C-V*) *      -
nw/clock 0 3 hurt    VBP * -     -  - - * *      (ARG1*) -
#end document
""",
    "coref": """\
#begin document (nw/owls); part 000
nw/owls 0 0 An NN * - - - Ann * (0|(3
nw/owls 0 1 owl NN * - - - Ann * 0)
nw/owls 0 2 left NN * - - - Ann * 3)

nw/owls 0 0 She NN * - - - Bob * (0)
#end document
#begin document (nw/owls); part 001
nw/owls 1 0 It NN * - - - - * (7)
#end document
""",
    "squad": '{"data": [{"paragraphs": [{"context": "The old mill burned.", "qas": [{"id": "x7", '
    '"question": "What?", "answers": [{"text": "mill", "answer_start": 8}]}]}]}]}',
    "snli": '{"gold_label": "neutral", "sentence1": "Rain", "sentence2": "Snow"}\n'
    '{"gold_label": "entailment", "sentence1_binary_parse": "( Two boats )", '
    '"sentence2": "Boats"}\n',
    "pos": TREES,
    "parse": TREES,
    "sst5": "(3 (2 (2 This) (2 soup)) (3 (2 is) (4 delicious)))\n(1 (2 No) (1 queue))\n",
}

# Examples as job=predict reads them.
RECORDS = {
    "ner": [{"id": 7, "tokens": ["Ann", "slept", "."]}, {"text": "Bob Smith sings."}],
    "sst5": [{"id": 7, "text": "Very good."}, {"tokens": ["Bad"]}],
    "snli": [{"id": 7, "sentence1": "A man sleeps.", "sentence2": ["A", "man", "runs", "."]}],
    "classify": [{"id": 7, "text": "Very good."}, {"text": ["Bad"]}],
    "squad": [{"id": 7, "question": "Who sings?", "context": "Bob Smith sings, and Ann sleeps."}],
    "srl": [
        {"id": 7, "text": "Bob sings.", "predicate": 1},
        {"tokens": ["Ann", "slept"], "predicate": "slept"},
    ],
    "coref": [
        {"id": "nw/7", "text": "Bob sings. He smiles.", "speakers": ["a", "b"]},
        {"sentences": [["Ann", "slept"], ["She", "smiled"]]},
    ],
    "pos": [{"id": 7, "tokens": ["Ann", "slept", "."]}, {"text": "Bob Smith sings."}],
    "parse": [{"id": 7, "tokens": ["Ann", "slept", "."]}, {"text": "Bob Smith sings."}],
}

ROOMS = {
    "snli": "tasks.classify.snli",
    "sst5": "tasks.classify.sst",
    **{task: f"tasks.treebank.{task}" for task in ("pos", "parse")},
}  # others: tasks.NAME.data


def format_module(task):
    """The module with a task's format."""
    return import_module(ROOMS.get(task, f"tasks.{task}.data"))
