"""The registry of kinds: the word in `kind:` and the model that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schemas.cluster import Cluster
from schemas.envelope import Resource
from schemas.image import Image, Registry
from schemas.node import Node, NodePool
from schemas.notification import Notification
from schemas.policy import Policy
from schemas.profile import NodeProfile
from schemas.quota import Quota
from schemas.resource_group import ResourceGroup
from schemas.secret_store import SecretStore
from schemas.session import Session
from schemas.session_template import SessionTemplate, Sweep
from schemas.storage import StorageHost, Volume
from schemas.tenancy import Domain, Project, User

KINDS: Mapping[str, type[Resource]] = MappingProxyType(
    {
        model.__name__: model
        for model in (
            Cluster,
            Node,
            NodePool,
            NodeProfile,
            ResourceGroup,
            Domain,
            Project,
            User,
            Quota,
            StorageHost,
            Volume,
            SecretStore,
            Registry,
            Image,
            Session,
            SessionTemplate,
            Sweep,
            Notification,
            Policy,
        )
    }
)
