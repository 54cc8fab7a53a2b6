"""The registry of kinds: the word in `kind:` and the model that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image, Registry
from schemas.kinds.node import Node, NodePool
from schemas.kinds.notification import Notification
from schemas.kinds.policy import Policy
from schemas.kinds.quota import Quota
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.secret_store import SecretStore
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.kinds.session_template import SessionTemplate, Sweep
from schemas.kinds.storage import StorageHost, Volume
from schemas.kinds.tenancy import Domain, Project, User
from schemas.profile import NodeProfile
from schemas.values.envelope import Resource

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
            Service,
            AppProxy,
            Notification,
            Policy,
        )
    }
)
