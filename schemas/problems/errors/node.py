"""A node: how it is reached, its volumes, and its images."""

from __future__ import annotations

from schemas.problems.errors.provider import ProviderError, ProviderUnavailable


class NodeUnreachable(ProviderUnavailable):
    """Node {node} cannot be reached: {why}"""

    code = "BAI-E0306"


class HostKeyRefused(ProviderUnavailable):
    """The host key of node {node} ({host}) is not accepted: {why}"""

    code = "BAI-E0307"
    retryable = False


class LoginRefused(ProviderUnavailable):
    """Node {node} does not let {user} in: {why}"""

    code = "BAI-E0308"
    retryable = False


class MachineRefused(ProviderError):
    """Node {node} refuses {what}: {why}"""

    code = "BAI-E0340"


class TargetRefused(ProviderUnavailable):
    """Nothing answers at {target} on node {node}: {why}"""

    code = "BAI-E0341"


class CommandTimedOut(ProviderUnavailable):
    """Node {node} did not finish `{command}` within {seconds} s"""

    code = "BAI-E0342"


class VolumeRefused(ProviderError):
    """{volume} on {node}: {why}"""

    code = "BAI-E0310"


class ImageMissing(ProviderError):
    """Provider {provider}: node {node} does not have the image {image}"""

    code = "BAI-E0311"


class PullFailed(ProviderError):
    """Provider {provider}: node {node} cannot pull {image}: {why}"""

    code = "BAI-E0312"
