"""A release described in forms that others read: the registry of deployments, NIST SP 800-226, and Croissant.

All of it follows from the release and from words of the curator, and costs nothing. `FORMS` has one line per form.
"""

import datetime
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
import pyarrow as pa
import yaml

from dpgm.data.formats import media_type_of
from dpgm.errors import UsageError
from dpgm.privacy.certificate import Certificate
from dpgm.privacy.events import Mechanism
from dpgm.synthesis.plan import in_words
from dpgm.synthesis.readme import plain_markdown
from dpgm.synthesis.release import Release
from dpgm.validation import counted

TO_COMPLETE = "TO BE COMPLETED"  # what only the curator knows
_READ_AT_ONCE = 1 << 20  # bytes of a file that is hashed


@dataclass(frozen=True)
class Words:
    """What the curator adds to a description; what is left out is taken from the certificate, or marked as missing."""

    use: str = TO_COMPLETE
    region: str = TO_COMPLETE
    author: str = TO_COMPLETE
    licence: str = TO_COMPLETE


Described: TypeAlias = Callable[[Release, Words, Sequence[Path]], str]


def describe_release(release: Release, form: str, words: Words | None = None, data: Sequence[Path] = ()) -> str:
    """A release in one of the `FORMS`, as text; `data` are files of synthetic records, for Croissant."""
    if form not in FORMS:
        raise UsageError(f"`form` must be one of {', '.join(FORMS)}; got {form!r}.")
    return FORMS[form](release, Words() if words is None else words, data)


# -- what all forms say --------------------------------------------------------------------------------------------


def _title(certificate: Certificate) -> str:
    return certificate.about.title or "Synthetic records"


def _date(certificate: Certificate) -> str:
    return certificate.about.date or datetime.date.today().isoformat()


def _unit(certificate: Certificate) -> str:
    rows = certificate.plan.get("rows_per_person", 1)
    if certificate.unit == "person":
        return "One person with all of their rows." if rows == 1 else f"One person with up to {rows} rows."
    return "One row; a person with several rows is protected row by row."


def _adjacency(certificate: Certificate) -> str:
    rows = certificate.plan.get("rows_per_person", 1)
    more = "one record" if rows == 1 else f"up to {rows} records of one person"
    figure = certificate.epsilon_replace_one
    replaced = "" if figure is None else f" If a record is replaced by another, epsilon is at most {figure:.4g}."
    return (
        f"Two data sets are neighbours if one is the other plus {more} (add/remove), or a record is replaced by an"
        f" empty one; the number of records is public.{replaced}"
    )


def _mechanisms(certificate: Certificate) -> list[str]:
    return [_in_a_line(certificate, mechanism) for mechanism in certificate.mechanisms]


def _in_a_line(certificate: Certificate, one: Mechanism) -> str:
    measured = in_words(str(certificate.model.get("kind")), one)
    sampled = "" if one.sampling_rate == 1 else f", each on a fresh Poisson sample at rate {one.sampling_rate:.4g}"
    times = "once" if one.count == 1 else f"{one.count:,} times"
    return (
        f"{one.name}: {measured.sentence}; Gaussian noise of {one.noise:.4g} x the sensitivity"
        f" ({measured.sensitivity}), {times}{sampled}"
    )


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


# -- the registry of deployments -----------------------------------------------------------------------------------


def registry_entry(release: Release, words: Words, data: Sequence[Path] = ()) -> str:
    """A draft for the Differential Privacy Deployments Registry: a YAML file of its schema, tier 3."""
    certificate = release.certificate
    title, owner = _title(certificate), certificate.about.owner or TO_COMPLETE
    population = certificate.about.population or TO_COMPLETE
    fields = ", ".join(f"{field.name} ({field.kind})" for field in release.domain.fields)
    deployment = {
        "basic": {
            "name": title,
            "data_curators": [owner],
            "intended_use": words.use,
            "data_product_type": "Synthetic data",
            "data_product_region": words.region,
            "description": (
                f"A generative model of {counted(certificate.records, 'record')} ({population}) and synthetic records"
                f" drawn from it. Fields: {fields}."
            ),
            "publication_date": _date(certificate),
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": f"All data sets of records with these fields: {fields}.",
            "unprotected_quantities": _listed(certificate.statements),
        },
        "privacy_loss": {
            "privacy_unit": certificate.unit.capitalize(),
            "privacy_unit_details": f"{_unit(certificate)} {_adjacency(certificate)}",
            "privacy_parameters": {"epsilon": certificate.epsilon, "delta": certificate.delta},
            "privacy_parameters_details": (
                f"Computed from the list of mechanisms by {certificate.accountant}; anyone can compute them again from"
                " the release (`dpgm verify`)."
            ),
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "The curator sees the records; recipients see the release and synthetic records only.",
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "The model is fitted to noisy sums only, and records are drawn from the model.",
            "composition": "All mechanisms are composed adaptively and in both directions, by their profiles.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": (
                "Records are read one by one; nothing is typed, bounded or kept by looking at other records, except"
                " what a mechanism below finds. All settings follow from public numbers."
            ),
            "mechanisms": _listed(
                [*_mechanisms(certificate), f"{certificate.software}; noise from: {certificate.randomness}"]
            ),
            "justification": TO_COMPLETE,
        },
        "administrative": {"registry_authors": [words.author if words.author != TO_COMPLETE else owner]},
    }
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "synthetic-records"
    entry = {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=110)


# -- NIST SP 800-226 -----------------------------------------------------------------------------------------------


def nist_mapping(release: Release, words: Words, data: Sequence[Path] = ()) -> str:
    """What NIST SP 800-226 asks of a guarantee, answered for this release: a table in Markdown."""
    certificate = release.certificate
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True
    )  # Markdown, not HTML: no escaping
    environment.filters["plain"] = plain_markdown
    template = environment.from_string(resources.files("dpgm.report").joinpath("nist.md.j2").read_text("utf-8"))
    return template.render(
        certificate=certificate,
        title=_title(certificate),
        unit=_unit(certificate),
        adjacency=_adjacency(certificate),
        mechanisms=_mechanisms(certificate),
    )


# -- Croissant -----------------------------------------------------------------------------------------------------

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(release: Release, words: Words, data: Sequence[Path] = ()) -> str:
    """Croissant 1.0 metadata of files of synthetic records, with the fields about responsible use (RAI 1.0)."""
    certificate = release.certificate
    if not data:
        raise UsageError("`data` is missing: name the file of synthetic records that is described.")
    files = [_file_object(path) for path in data]
    promise = f"epsilon {certificate.epsilon:.4g}, delta {certificate.delta:.3g} per {certificate.unit}"
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": _title(certificate),
        "description": (
            "Synthetic records, drawn from a differentially private generative model"
            f" ({promise}). They are not records of people."
        ),
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "datePublished": _date(certificate),
        "version": "1.0.0",
        "license": words.licence,
        "url": TO_COMPLETE,
        "creator": {"@type": "sc:Organization", "name": certificate.about.owner or TO_COMPLETE},
        "citeAs": f"{certificate.about.owner or TO_COMPLETE}: {_title(certificate)}, {_date(certificate)}.",
        "rai:dataCollection": (
            f"The model was fitted to {counted(certificate.records, 'record')}:"
            f" {certificate.about.population or TO_COMPLETE}."
        ),
        "rai:dataCollectionType": ["Synthetic data"],
        "rai:dataUseCases": words.use,
        "rai:dataLimitations": (
            "Small groups and rare values are blurred or left out. No record stands for a person; counts of small"
            " groups are noise."
        ),
        "rai:dataBiases": "Those of the records that the model was fitted to, and the loss of rare values and groups.",
        "rai:personalSensitiveInformation": (
            f"None beyond what differential privacy allows: {promise}. {_unit(certificate)}"
        ),
        "rai:dataPreprocessingProtocol": _mechanisms(certificate),
        "distribution": files,
        "recordSet": [_record_set(release, path, file) for path, file in zip(data, files, strict=True)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path} is not a file; name a file of synthetic records.")
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_READ_AT_ONCE):
            digest.update(piece)
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": media_type_of(path),
        "sha256": digest.hexdigest(),
    }


def _record_set(release: Release, path: Path, file: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a file, as samples of the release have them."""
    name = path.stem
    schema = release.sample(1, seed=0).to_arrow().schema
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"The synthetic records in {path.name}.",
        "field": [_field(name, column, file) for column in schema],
    }


def _field(records: str, column: pa.Field, file: Mapping[str, Any]) -> dict[str, Any]:
    holds_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    kind = column.type.value_type if holds_list else column.type
    repeated = holds_list and not file["encodingFormat"].startswith("text/")  # a text file has lists as texts
    described = {
        "@type": "cr:Field",
        "@id": f"{records}/{column.name}",
        "name": column.name,
        "description": column.name,
        "dataType": next((name for known, name in _DATA_TYPES if known(kind)), "sc:Text"),
        "source": {"fileObject": {"@id": file["@id"]}, "extract": {"column": column.name}},
    }
    return described | ({"repeated": True} if repeated else {})


_DATA_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "sc:Boolean"),
    (pa.types.is_integer, "sc:Integer"),
    (pa.types.is_floating, "sc:Float"),
    (pa.types.is_decimal, "sc:Float"),
    (pa.types.is_date, "sc:Date"),
    (pa.types.is_timestamp, "sc:DateTime"),
)

FORMS: dict[str, Described] = {"registry": registry_entry, "nist": nist_mapping, "croissant": croissant}
