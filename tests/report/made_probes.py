"""What a made-up `job=probe` leaves."""

POS = {
    "baseline": {"accuracy": 0.75},
    "layers": [
        {"accuracy": [0.8, 0.82], "control": [0.9, 0.9]},
        {"accuracy": [0.9, 0.9], "control": [0.7, 0.8]},
    ],
}
SENSE = {"baseline": {"accuracy": 0.5}, "layers": [{"accuracy": [0.6]}, {"accuracy": [0.625]}]}
ENTITY = {
    "baseline": {"accuracy": 0.85, "f1": 0.25},
    "layers": [{"accuracy": [0.9, 0.9], "control": [0.8, 0.8], "f1": [0.3, 0.4]}],
}


def probes_content(name="books", corpus="ewt", **more):
    return {
        "encoder": {"name": name, "pretrained": True, "directions": None},
        "corpus": corpus,
        "data": {"train": {"sha256": "ab"}},
        "settings": {"steps": 5},
        "seeds": [1, 2],
        "command": "python run.py job=probe",
        "properties": {"pos": POS, "sense": SENSE},
    } | more
