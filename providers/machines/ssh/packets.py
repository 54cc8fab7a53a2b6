"""What OpenSSH has and paramiko lacks, put into and read from the messages on their way: channels to unix
sockets, exit signals, signs of life. paramiko takes a packetizer of ours (`packetizer_class`), which every
message passes."""

from __future__ import annotations

import contextlib
import errno
import struct
import threading
from collections import deque
from typing import Any

from paramiko import Message, SSHException
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
    cMSG_CHANNEL_OPEN,
    cMSG_GLOBAL_REQUEST,
)
from paramiko.packet import Packetizer

from providers.machines.ssh.signals import signal_number

_STREAM_LOCAL = "direct-streamlocal@openssh.com"
_REMEMBERED = 64
_PATH = "\0"
"""No path has it: what follows it in a kind of channel is one."""
_ABOUT_A_CHANNEL = range(MSG_CHANNEL_WINDOW_ADJUST, MSG_CHANNEL_FAILURE + 1)
"""Messages that begin with the number that the far side has given a channel."""


class OpenSshPacketizer(Packetizer):
    """One connection's messages, in both directions."""

    unanswered = 0
    """Questions asked since anything came."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.refused: deque[int] = deque(maxlen=_REMEMBERED)
        """Channels on which the far side did not do what it was asked for, as far as it was not long ago."""
        self._ended_channels: set[int] = set()
        """Channels, by the far side's numbers, of which it was told that they are closed."""
        self._sending = threading.Lock()

    def send_message(self, data: Message) -> None:
        """Leaves out what follows the end of a channel: paramiko decides what to say and says it in two
        steps, and its own thread may answer the far side's end in between. OpenSSH would end the connection,
        with everybody's commands."""
        try:
            with self._sending:
                if not self._is_too_late(data.asbytes()):
                    super().send_message(_with_path(data))
        except EOFError as error:  # So paramiko calls a socket that takes nothing any more.
            raise ConnectionResetError(errno.ECONNRESET, "the connection was lost") from error

    def read_message(self) -> tuple[int, Message]:
        number, message = super().read_message()
        self.unanswered = 0
        if number == MSG_CHANNEL_FAILURE:
            self.refused.append(message.get_int())
            message.rewind()
        elif number == MSG_CHANNEL_OPEN_SUCCESS:
            _, given = message.get_int(), message.get_int()
            self._ended_channels.discard(given)
            message.rewind()
        return number, _with_exit_status(message) if number == MSG_CHANNEL_REQUEST else message

    def close(self) -> None:
        """Behind a jump host its socket is a channel, whose end cannot be told any more when the connection
        to that host is broken: neither who closes nor paramiko's thread is to fail by that."""
        with contextlib.suppress(OSError, SSHException):
            super().close()

    def _is_too_late(self, content: bytes) -> bool:
        if content[0] not in _ABOUT_A_CHANNEL:
            return False
        (channel,) = struct.unpack_from(">I", content, 1)
        if content[0] == MSG_CHANNEL_CLOSE:
            self._ended_channels.add(channel)
            return False
        return channel in self._ended_channels


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
