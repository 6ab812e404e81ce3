"""What must not be written down: the one list of names and values that look like secrets, for control and node side.

Of an environment only values are kept that are known to change how training runs. Words of a command are kept unless
they are secrets by their shape or by the option before them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

HIDDEN = "***"
# Of all other variables only the names are kept.
_TELLING = frozenset(
    "PATH VIRTUAL_ENV CONDA_PREFIX LANG LC_ALL TZ HOSTNAME PWD RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK "
    "GROUP_RANK MASTER_ADDR MASTER_PORT".split()
)
_TELLING_STARTS = tuple(
    "OMP_ KMP_ GOMP_ MKL_ OPENBLAS_ BLIS_ NUMEXPR_ MALLOC_ TCMALLOC_ GLIBC_ LD_ CUDA_ NVIDIA_ NCCL_ GLOO_ UCX_ FI_ "
    "HIP_ ROCR_ HSA_ ASCEND_ HCCL_ MLU_ XPU_ MUSA_ MACA_ PYTORCH_ TORCH_ TORCHINDUCTOR_ TF_ XLA_ JAX_ MS_ GLOG_ SLURM_ "
    "ZE_ TRAINMARK_ PYTHON PMI_ PMIX_ OMPI_ MPI_ HOROVOD_ TP_SOCKET_".split()
)
_NAMES = (
    *(
        "TOKEN",
        "SECRET",
        "PASSW",
        "PASSPHRASE",
        "CREDENTIAL",
        "AUTH",
        "COOKIE",
        "SESSION",
        "SIGNATURE",
        "JWT",
        "BEARER",
    ),
    *("WEBHOOK", "CONNECTIONSTRING", "CONNECTION_STRING", "ACCOUNTKEY", "APIKEY"),
)
_NAME = r"(^|[_-])(API|ACCESS|PRIVATE|SIGNING|SSH|ACCOUNT)?[_-]?KEY|(^|[_-])(PASS|PWD|DSN|SAS)$|^(PG|MYSQL_?)(PASS|PWD)"
_NO_SECRETS = ("PWD", "OLDPWD")
_VALUE = (
    r"://[^/\s:@]*:[^/\s@]+@|\b(gh[pousr]_|github_pat_|glpat-|A[KS]IA|xox[abpr]-|sk-|hf_|dop_v1_|AIza|npm_|pypi-)"
    r"[A-Za-z0-9_-]{8,}|\beyJ[A-Za-z0-9_-]{8,}|-----BEGIN|(?i:\b(password|passwd|pwd|accountkey|sharedaccesskey|secret)=[^\s;&]+)"
)
# One of these is in every such value. Making the pattern costs a thousand times as much as looking for them.
_HINTS = (
    *(
        "://",
        "gh",
        "glpat-",
        "AKIA",
        "ASIA",
        "xox",
        "sk-",
        "hf_",
        "dop_v1_",
        "AIza",
        "npm_",
        "pypi-",
        "eyJ",
        "-----BEGIN",
    ),
    *("=",),
)
_SECRET_WORDS = ("password", "passwd", "passphrase", "pwd", "secret", "credential", "credentials", "jwt", "apikey")
_TEXT_TOKENS = (
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "special",
    "image",
    "start",
    "end",
    "stop",
    "new",
    "per",
)
# Options of programs that are followed by a secret, whatever their spelling: --password, --api-key, -p=…
_OPTION = r"-{1,2}([A-Za-z][\w.-]*)"
# Secrets of fewer characters are part of other words by chance.
_SHORT = 6
# `api_key: x`, `"api_key": "x"`, `--api-key=x`: what stands before the value, and the name in that.
_ASSIGNED = r"(\b([A-Za-z][\w.-]*)[\"']?\s*[:=]\s*[\"']?)(?!\*\*\*)[^\s\"',;{}\[\]]+"
_MASK = r"\*\*\*\d+\*\*\*"


def looks_secret(name: str, value: str) -> bool:
    """Whether the name or the value of a variable looks like a secret."""
    return secret_name(name) or secret_value(value)


def secret_name(name: str) -> bool:
    upper = name.upper()
    if upper in _NO_SECRETS:
        return False
    if any(word in upper for word in _NAMES):
        return True
    if not any(word in upper for word in ("KEY", "PASS", "PWD", "DSN", "SAS")):
        return False
    import re  # nearly all names get by without

    return re.search(_NAME, upper) is not None


def secret_option(name: str) -> bool:
    """Whether an option of a program is followed by a secret. Stricter than for variables: `--tokenizer`,
    `--max-tokens` and `--pad-token` are what training programs are about."""
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return before not in _TEXT_TOKENS
    return last in _SECRET_WORDS or (last == "key" and before in ("api", "access", "secret", "private", "account"))


def secret_setting(name: str, value: object) -> bool:
    """Whether a parameter is a secret. Numbers are not: `n_token: 512` is what training programs are about."""
    return isinstance(value, str) and bool(value) and (secret_option(name) or secret_value(value))


def without_settings(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Parameters as they are written down where nobody needs to tell one secret from another."""
    return {name: HIDDEN if secret_setting(name, value) else value for name, value in values.items()}


def secret_value(value: str) -> bool:
    if not any(hint in value for hint in _HINTS):
        return False
    import re

    return re.search(_VALUE, value) is not None


def may_keep(name: str, value: str) -> bool:
    """Whether the value of a variable is written down: it is known to matter, and is no secret."""
    if name not in _TELLING and not name.startswith(_TELLING_STARTS):
        return False
    return not looks_secret(name, value)


def environment_text(env: Mapping[str, str]) -> str:
    """One variable a line, sorted, with the values that may be kept."""
    lines = []
    for name in sorted(env):
        shown = env[name].replace("\n", "\\n") if may_keep(name, env[name]) else HIDDEN
        lines.append("%s=%s\n" % (name.replace("\n", "\\n"), shown))
    return "".join(lines)


def masked(words: Sequence[str], known: Dict[str, str]) -> List[str]:
    """The words of a command as they are written down. What stands for a secret, `***1***`, is added to `known`."""
    import re

    found: List[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        named = re.fullmatch(_OPTION, name)
        if named and equals and secret_option(named[1]) and value:
            found.append("%s=%s" % (name, mask(value, known)))
        elif option and not word.startswith("-"):
            found.append(mask(word, known))
        elif secret_value(word) or (equals and not named and name.isidentifier() and secret_option(name)):
            found.append(mask(word, known) if secret_value(word) else "%s=%s" % (name, mask(value, known)))
        else:
            found.append(word)
        option = named[1] if named and not equals and secret_option(named[1]) else ""
    return found


def mask(secret: str, known: Dict[str, str]) -> str:
    """What stands for a secret, the same each time; added to `known`."""
    if secret in known:
        return secret  # stands for one already
    for stands, one in known.items():
        if one == secret:
            return stands
    stands = "***%d***" % (len(known) + 1)
    known[stands] = secret
    return stands


def filled(word: str, known: Mapping[str, str]) -> str:
    """A word with what stands for secrets replaced by them."""
    for mask, secret in known.items():
        if mask in word:
            word = word.replace(mask, secret)
    return word


def stands_for_secret(word: str) -> bool:
    """Whether a word, or a part of it, stands for a secret."""
    if HIDDEN not in word:
        return False
    import re

    return re.search(_MASK, word) is not None


def without(text: str, known: Mapping[str, str]) -> str:
    """The other way round. A short secret may be a part of any word, so it is replaced only where it stands alone."""
    found = [secret for secret in sorted(known.values(), key=len, reverse=True) if secret in text]
    if not found:
        return text
    import re

    stands = {secret: mask for mask, secret in known.items()}
    any_of = "|".join(
        re.escape(secret) if len(secret) >= _SHORT else "(?<![A-Za-z0-9])%s(?![A-Za-z0-9])" % re.escape(secret)
        for secret in found
    )
    # What already stands for a secret is left as it is.
    return re.sub("%s|%s" % (_MASK, any_of), lambda match: stands.get(match[0], match[0]), text)


def cleaned(text: str) -> str:
    """The text of a file without what is a secret by its shape, or by the name before it."""
    import re

    def hidden(match: Any) -> str:
        return str(match[1] + HIDDEN if secret_option(match[2]) else match[0])

    return re.sub(_ASSIGNED, hidden, re.sub(_VALUE, HIDDEN, text))
