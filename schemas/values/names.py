"""Names that are safe as a hostname, as one component of a path, in a label and in a shell word."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NAME_PATTERN = rf"^{LABEL}$"
NODE_PATTERN = rf"^(?=.{{1,253}}$){LABEL}(\.{LABEL})*$"
KEY_PATTERN = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,254}$"
ADDRESS_PATTERN = r"^[A-Za-z0-9:]([-A-Za-z0-9.:]{0,251}[A-Za-z0-9:])?$"
_HOST = r"([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_HOP = rf"([a-z_][-a-z0-9_.]{{0,31}}@)?{_HOST}(:[0-9]{{1,5}})?"
JUMP_PATTERN = rf"^{_HOP}( *, *{_HOP}){{0,15}}$"
ABSOLUTE_PATTERN = r"^/(?!.*(^|/)\.\.(/|$))[^\u0000-\u001f\u007f]*$"
RELATIVE_PATTERN = r"^(?!/)(?!.*(^|/)\.\.(/|$))[^\u0000-\u001f\u007f\\]+$"
USER_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9._+@]{0,251}[A-Za-z0-9])?$"
LINUX_USER_PATTERN = r"^[a-z_][-a-z0-9_.]{0,30}[a-z0-9_$]?$"
RANGE_PATTERN = r"^[A-Za-z0-9\[\],:.-]{1,253}$"
EMAIL_PATTERN = r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$"
ROLE_PATTERN = r"^[a-z]([-a-z0-9]{0,29}[a-z])?$"
DEVICE_PATTERN = r"^[A-Za-z0-9_.:@-]{1,32}$"
ENTRY = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
SECRET_PATTERN = rf"^{LABEL}/{ENTRY}$"
ENTRY_PATTERN = r"^[A-Za-z0-9_*?][A-Za-z0-9_.*?-]{0,252}$"
VENDOR_PATTERN = r"^[a-z][a-z0-9]{0,31}$"
GLOB_PATTERN = r"^[A-Za-z0-9*?][A-Za-z0-9*?._:/-]{0,254}$"
GENERATION_PATTERN = r"^(stable|latest|[0-9a-f]{8})$"
REQUEST_PATH_PATTERN = r"^/[!-~]{0,1023}$"
"""Nothing in it ends a line of a request, or a word of one."""
MODE_PATTERN = r"^[0-7]{3,4}$"
STORE_PARAMETERS = (
    "sslmode", "schema", "connect_timeout", "application_name", "target_session_attrs", "channel_binding",
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
    "options", "host", "port",
)  # fmt: skip
"""What a document may say of its store's server: nothing that names files or passwords."""
STORE_PATTERN = (
    r"^postgres(ql)?://([^:@/?#\s]+@)?[^@/?#\s]*(/[^?#\s]*)?"
    rf"(\?({'|'.join(STORE_PARAMETERS)})=[^&#\s]*(&({'|'.join(STORE_PARAMETERS)})=[^&#\s]*)*)?$"
)
NO_CONTROL_PATTERN = r"^[^\u0000]*$"


def suggest_name(text: str) -> str:
    """The nearest safe name, for a hint; empty when nothing is left of it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-")


def _pattern_validator(pattern: str, rule: str, *, suggesting: bool = False) -> AfterValidator:
    compiled = re.compile(pattern.removesuffix("$") + r"\Z")

    def check(value: str) -> str:
        if compiled.match(value):
            return value
        meant = suggest_name(value) if suggesting else ""
        raise value_error(
            f"{format_value(value)} is not {rule}", f"did you mean '{meant}'?" if meant else "", "BAI-V033"
        )

    return AfterValidator(check)


def _pattern_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


CIDR_PATTERN = r"^[0-9a-fA-F.:]{2,45}/[0-9]{1,3}$"


def _validate_network(value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError as error:
        raise value_error(
            f"{format_value(value)} is not a network such as 10.0.0.0/16: {error}", code="BAI-V033"
        ) from None
    return value


Cidr = Annotated[str, AfterValidator(_validate_network), _pattern_schema(CIDR_PATTERN)]
_NAME_RULE = "a safe name: 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit"

Name = Annotated[
    str, _pattern_validator(NAME_PATTERN, _NAME_RULE, suggesting=True), _pattern_schema(NAME_PATTERN)
]
SHARER_PATTERN = r"^(domain|project|user)/" + NAME_PATTERN.removeprefix("^")
Sharer = Annotated[
    str,
    _pattern_validator(SHARER_PATTERN, "domain/<name>, project/<name> or user/<name>"),
    _pattern_schema(SHARER_PATTERN),
]
NodeName = Annotated[
    str,
    _pattern_validator(
        NODE_PATTERN, "a safe hostname: labels of a-z, 0-9 and '-', joined by dots", suggesting=True
    ),
    _pattern_schema(NODE_PATTERN),
]
LabelKey = Annotated[
    str,
    _pattern_validator(KEY_PATTERN, "a label key such as team or example.org/team"),
    _pattern_schema(KEY_PATTERN),
]
LabelValue = Annotated[
    str,
    _pattern_validator(VALUE_PATTERN, "a label value: at most 63 of A-Z, a-z, 0-9, '-', '_' and '.'"),
    _pattern_schema(VALUE_PATTERN),
]
EnvName = Annotated[
    str,
    _pattern_validator(
        ENV_PATTERN, "the name of an environment variable: letters, digits and '_', no digit first"
    ),
    _pattern_schema(ENV_PATTERN),
]
Address = Annotated[
    str, _pattern_validator(ADDRESS_PATTERN, "a host name or IP address"), _pattern_schema(ADDRESS_PATTERN)
]
JumpHosts = Annotated[
    str,
    _pattern_validator(JUMP_PATTERN, "hosts to go through, [user@]host[:port], separated by commas"),
    _pattern_schema(JUMP_PATTERN),
]
AbsolutePath = Annotated[
    str,
    _pattern_validator(ABSOLUTE_PATTERN, "an absolute path without '..' and control characters"),
    _pattern_schema(ABSOLUTE_PATTERN),
]
RelativePath = Annotated[
    str,
    _pattern_validator(RELATIVE_PATTERN, "a relative path without '..', backslashes and control characters"),
    _pattern_schema(RELATIVE_PATTERN),
]
UserRef = Annotated[
    str, _pattern_validator(USER_PATTERN, "a user's name or e-mail address"), _pattern_schema(USER_PATTERN)
]
CONTAINER_USER_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$"
ContainerUser = Annotated[
    str,
    _pattern_validator(CONTAINER_USER_PATTERN, "a user such as 1000, 1000:1000 or a name of the image"),
    _pattern_schema(CONTAINER_USER_PATTERN),
]
LinuxUser = Annotated[
    str, _pattern_validator(LINUX_USER_PATTERN, "a Linux user name"), _pattern_schema(LINUX_USER_PATTERN)
]
Text = Annotated[
    str,
    _pattern_validator(NO_CONTROL_PATTERN, "text without NUL characters"),
    _pattern_schema(NO_CONTROL_PATTERN),
]


def _validate_store_url(value: str) -> str:
    """Does not repeat what may hold a password."""
    if re.match(STORE_PATTERN.removesuffix("$") + r"\Z", value):
        return value
    raise value_error(
        "this is not postgresql://[user@]host[:port]/database[?...] without a password and without files",
        "those are the owner's to say: passwordFrom=, keyFile= and others in `--state` or BAI_STATE",
        "BAI-V033",
    )


StoreUrl = Annotated[str, AfterValidator(_validate_store_url), _pattern_schema(STORE_PATTERN)]
RangePattern = Annotated[
    str,
    _pattern_validator(
        RANGE_PATTERN, "a pattern of letters, digits, '-', '.', ':' and ranges such as [001-128]"
    ),
    _pattern_schema(RANGE_PATTERN),
]
Email = Annotated[str, _pattern_validator(EMAIL_PATTERN, "an e-mail address"), _pattern_schema(EMAIL_PATTERN)]
Generation = Annotated[
    str,
    _pattern_validator(GENERATION_PATTERN, "stable, latest, or 8 hex digits, which name a generation"),
    _pattern_schema(GENERATION_PATTERN),
]
RequestPath = Annotated[
    str,
    _pattern_validator(
        REQUEST_PATH_PATTERN, "a path such as /health: printable ASCII without spaces, beginning with '/'"
    ),
    _pattern_schema(REQUEST_PATH_PATTERN),
]
Mode = Annotated[
    str,
    _pattern_validator(MODE_PATTERN, 'octal permissions in quotes, such as "0770"'),
    _pattern_schema(MODE_PATTERN),
]
Role = Annotated[
    str,
    _pattern_validator(
        ROLE_PATTERN, "a role: at most 31 of a-z, 0-9 and '-', beginning and ending with a letter"
    ),
    _pattern_schema(ROLE_PATTERN),
]
"""It ends with a letter because hostnames append a number: `main1`."""
Vendor = Annotated[
    str,
    _pattern_validator(VENDOR_PATTERN, "an accelerator's word such as cuda or rocm"),
    _pattern_schema(VENDOR_PATTERN),
]
DeviceName = Annotated[
    str, _pattern_validator(DEVICE_PATTERN, "the name of an interface"), _pattern_schema(DEVICE_PATTERN)
]


def _validate_secret_reference(value: str) -> str:
    """Does not repeat what may be a secret that somebody has written here himself."""
    if re.match(SECRET_PATTERN.removesuffix("$") + r"\Z", value):
        return value
    if value.startswith(("env:", "file:")):
        raise value_error(
            f"{format_value(value)}: documents name no variables and files of the machine that runs bai",
            "write STORE/ENTRY; its owner declares the SecretStore in the file of --secret-stores",
            "BAI-V033",
        )
    raise value_error(
        "this is not STORE/ENTRY: the name of a SecretStore, and one of letters, digits, '-', '_' and '.'",
        "a secret itself never stands in a document",
        "BAI-V033",
    )


SecretReference = Annotated[str, AfterValidator(_validate_secret_reference), _pattern_schema(SECRET_PATTERN)]
EntryPattern = Annotated[
    str,
    _pattern_validator(
        ENTRY_PATTERN, "the name of an entry: letters, digits, '-', '_', '.', and the patterns * and ?"
    ),
    _pattern_schema(ENTRY_PATTERN),
]
Glob = Annotated[
    str,
    _pattern_validator(
        GLOB_PATTERN, "a pattern of letters, digits, '.', '_', ':', '/' and '-', with * and ?"
    ),
    _pattern_schema(GLOB_PATTERN),
]
ProjectOrAll = Annotated[
    str,
    _pattern_validator(rf"^(\*|{LABEL})$", 'the name of a project, or "*"', suggesting=True),
    _pattern_schema(rf"^(\*|{LABEL})$"),
]
