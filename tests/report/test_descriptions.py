"""A release in the forms of others: an entry of the registry, answers to NIST SP 800-226, Croissant metadata."""

import csv
import hashlib
import json
import re

import pytest
import yaml

from dpgm.cli.app import load_commands, run
from dpgm.errors import UsageError
from dpgm.privacy.certificate import About
from dpgm.report.descriptions import FORMS, TO_COMPLETE, Words, describe_release
from release_data import some_release
from synthesis_data import SETS, TABLE

load_commands()
ABOUT = About("Town | people *2026*", "Office of Statistics", "20,000 people of a town", "2026-11-01")


@pytest.fixture(scope="module")
def release():
    return some_release(TABLE, about=ABOUT)


@pytest.fixture(scope="module")
def sampled(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    sample = release.sample(30, seed=1)
    for name in ("people.csv", "people.parquet"):
        sample.write(folder / name)
    return folder


def test_the_entry_of_the_registry_has_the_fields_of_its_schema(release):
    """By `schemas/deployments-schema.yaml` of the registry, of which the required fields and lists stand here."""
    entry = yaml.safe_load(describe_release(release, "registry", Words(use="research", region="Europe")))
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert re.fullmatch(r"[a-z0-9-]+", entry["url_slug"])
    assert (entry["status"], entry["tier"]) == ("Draft", 3)
    parts = entry["deployment"]
    known = {
        "basic",
        "dp_variant",
        "privacy_loss",
        "deployment_model",
        "accounting",
        "implementation",
        "administrative",
    }
    assert set(parts) == known
    needed = {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region"}
    assert needed | {"publication_date"} == set(parts["basic"])
    assert parts["basic"]["publication_date"] == "2026-11-01"  # a text, as the schema asks for
    assert parts["privacy_loss"]["privacy_parameters"] == {
        "epsilon": release.certificate.epsilon,
        "delta": release.certificate.delta,
    }
    for mechanism in release.certificate.mechanisms:
        assert mechanism.name in parts["implementation"]["mechanisms"]
    for statement in release.certificate.statements:
        assert statement in parts["dp_variant"]["unprotected_quantities"]
    assert parts["administrative"]["registry_authors"] == ["Office of Statistics"]
    assert isinstance(parts["implementation"]["justification"], str)


def test_the_answers_to_nist_are_one_table_whatever_the_names(release):
    text = describe_release(release, "nist")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line) for line in rows]
    assert {len(row) for row in cells} == {5}
    assert len(rows) == 2 + 12
    assert r"Town \| people \*2026\*" in text
    assert f"epsilon {release.certificate.epsilon:.4g}" in text
    assert "No ledger" in text


def test_a_seeded_release_is_called_not_private():
    seeded = some_release(SETS, private=False)
    assert "NOT PRIVATE" in describe_release(seeded, "nist")


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_croissant_describes_the_file_as_it_is(release, sampled, name):
    path = sampled / name
    document = json.loads(describe_release(release, "croissant", data=[path]))
    assert document["@type"] == "sc:Dataset"
    assert "http://mlcommons.org/croissant/1.0" in document["conformsTo"]
    (file,) = document["distribution"]
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file["contentSize"] == f"{path.stat().st_size} B"
    (records,) = document["recordSet"]
    with open(sampled / "people.csv", newline="") as stream:
        header = next(csv.reader(stream))
    assert [field["name"] for field in records["field"]] == header
    kinds = {field["name"]: (field["dataType"], field.get("repeated", False)) for field in records["field"]}
    assert kinds == {
        "bought": ("sc:Text", name.endswith("parquet")),
        "region": ("sc:Text", False),
        "age": ("sc:Integer", False),
    }
    said = json.dumps({key: value for key, value in document.items() if key.startswith("rai:")})
    assert "epsilon 1, delta 1e-06 per row" in said
    used = {word for key in _keys(document) for word in [key.split(":")[0]]}
    assert used <= {"@context", "@type", "@id", "@language", "@vocab", *document["@context"], *SCHEMA_ORG}


SCHEMA_ORG = [
    "name",
    "description",
    "datePublished",
    "version",
    "license",
    "url",
    "creator",
    "distribution",
    "contentUrl",
    "contentSize",
    "encodingFormat",
    "sha256",
]


def _keys(document):
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from _keys(value)
    elif isinstance(document, list):
        for value in document:
            yield from _keys(value)


def test_what_is_missing_is_refused_or_marked(release, sampled, tmp_path, capsys):
    with pytest.raises(UsageError, match="`data` is missing"):
        describe_release(release, "croissant")
    with pytest.raises(UsageError, match="not a file"):
        describe_release(release, "croissant", data=[tmp_path / "nowhere.csv"])
    with pytest.raises(UsageError, match="`form` must be one of"):
        describe_release(release, "word")
    assert TO_COMPLETE in describe_release(some_release(SETS), "registry")
    release.save(tmp_path / "release")
    for form in FORMS:
        command = ["describe", str(tmp_path / "release"), "--form", form, "--out", str(tmp_path / form)]
        assert run([*command, "--data", str(sampled / "people.csv")]) == 0
        said = capsys.readouterr().out
        assert (TO_COMPLETE in said) == (TO_COMPLETE in (tmp_path / form).read_text())
