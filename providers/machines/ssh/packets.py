"""What OpenSSH has and paramiko lacks, put into and read from the messages on their way: channels to unix
sockets, exit signals, signs of life. paramiko takes a packetizer of ours (`packetizer_class`), which every
message passes."""

from __future__ import annotations

import errno
from collections import deque
from typing import Any

from paramiko import Message
from paramiko.common import MSG_CHANNEL_FAILURE, MSG_CHANNEL_REQUEST, cMSG_CHANNEL_OPEN, cMSG_GLOBAL_REQUEST
from paramiko.packet import Packetizer

from providers.machines.ssh.signals import signal_number

_STREAM_LOCAL = "direct-streamlocal@openssh.com"
_REMEMBERED = 64
_PATH = "\0"
"""No path has it: what follows it in a kind of channel is one."""


class OpenSshPacketizer(Packetizer):
    """One connection's messages, in both directions."""

    unanswered = 0
    """Questions asked since anything came."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.refused: deque[int] = deque(maxlen=_REMEMBERED)
        """Channels on which the far side did not do what it was asked for, as far as it was not long ago."""

    def send_message(self, data: Message) -> None:
        try:
            super().send_message(_with_path(data))
        except EOFError as error:  # So paramiko calls a socket that takes nothing any more.
            raise ConnectionResetError(errno.ECONNRESET, "the connection was lost") from error

    def read_message(self) -> tuple[int, Message]:
        number, message = super().read_message()
        self.unanswered = 0
        if number == MSG_CHANNEL_FAILURE:
            self.refused.append(message.get_int())
            message.rewind()
        return number, _with_exit_status(message) if number == MSG_CHANNEL_REQUEST else message


def unix_socket_kind(path: str) -> str:
    """The kind of a channel to this socket of the far side, for `Transport.open_channel`."""
    return f"{_STREAM_LOCAL}{_PATH}{path}"


def sign_of_life_request() -> Message:
    """A question that every server answers, with yes or no (RFC 4254, 4)."""
    question = Message()
    question.add_byte(cMSG_GLOBAL_REQUEST)
    question.add_string("keepalive@openssh.com")
    question.add_boolean(True)
    return question


def _with_path(message: Message) -> Message:
    """paramiko writes the addresses of the kinds of channels that it knows; for `unix_socket_kind` they are
    added here (PROTOCOL of OpenSSH, 2.4: path, reserved string, reserved number)."""
    content = message.asbytes()
    if not content.startswith(cMSG_CHANNEL_OPEN):
        return message
    asked = Message(content[1:])
    kind, _, path = asked.get_text().partition(_PATH)
    if kind != _STREAM_LOCAL:
        return message
    opening = Message()
    opening.add_byte(cMSG_CHANNEL_OPEN)
    opening.add_string(kind)
    opening.add_bytes(asked.get_remainder())
    opening.add_string(path)
    opening.add_string("")
    opening.add_int(0)
    return opening


def _with_exit_status(message: Message) -> Message:
    """A command that a signal ended has no exit status; it gets the one that shells give (128 + number)."""
    channel, kind, answered = message.get_int(), message.get_text(), message.get_boolean()
    if kind != "exit-signal":
        message.rewind()
        return message
    status = Message()
    status.add_int(channel)
    status.add_string("exit-status")
    status.add_boolean(answered)
    status.add_int(128 + signal_number(message.get_text()))
    status.rewind()
    return status
