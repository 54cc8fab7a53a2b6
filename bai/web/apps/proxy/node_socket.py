"""What a node is asked to do for bai's way in: programs that travel with the command and leave nothing.

sshd makes the socket as who logs in, where nobody else comes; then it is given to the proxy's group and put
where the proxy looks, in one step: who came last has the place. Python 3.8 or newer.
"""

from __future__ import annotations

import textwrap

GROUP = "bai-apps"
"""Of the user that Caddy is on a node."""
UP = b"up\n"
"""What `PUBLISH` says when the socket is there."""
SIGN_OF_LIFE = 5.0
"""Seconds between two signs of life; after `SILENCE` without any the socket is taken away."""
SILENCE = 30.0
TAKEN = "another bai has taken its place"

PREPARE = textwrap.dedent("""
    import os, shutil, sys, time
    top, name = sys.argv[1:3]
    try:
        for each in os.listdir(top):
            path = os.path.join(top, each)
            if each.startswith("in.") and os.lstat(path).st_mtime < time.time() - 600:
                shutil.rmtree(path, ignore_errors=True)
        place = os.path.join(top, "in." + name)
        os.mkdir(place, 0o700)
        os.chown(place, int(os.environ.get("SUDO_UID", os.getuid())), -1)
    except FileNotFoundError:
        sys.exit("there is no " + top + ": its profile needs the section appProxy")
    except OSError as error:
        sys.exit(top + ": " + error.strerror.lower() + " (log in as root, or with ssh.sudo)")
""")
"""Arguments: the folder, a name that nobody guesses. Makes the folder `in.NAME` there, of who logs in."""

PUBLISH = textwrap.dedent("""
    import grp, os, select, stat, sys
    top, name, socket, group, silence = sys.argv[1:6]
    def same(one, path):
        try:
            two = os.lstat(path)
        except FileNotFoundError:
            return False
        return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
    draft, place = os.path.join(top, "in." + name), os.path.join(top, socket)
    made = os.path.join(draft, socket)
    try:
        os.chown(draft, 0, 0)
        found = os.lstat(made)
        if not stat.S_ISSOCK(found.st_mode):
            sys.exit(made + " is no socket")
        os.chown(made, 0, grp.getgrnam(group).gr_gid)
        os.chmod(made, 0o660)
        os.rename(made, place)
        os.rmdir(draft)
    except (OSError, KeyError) as error:
        sys.exit(str(error))
    os.write(1, b"up\\n")
    try:
        while select.select([0], [], [], float(silence))[0] and os.read(0, 4096):
            if not same(found, place):
                sys.exit("TAKEN")
    finally:
        if same(found, place):
            os.unlink(place)
""").replace("TAKEN", TAKEN)
"""Arguments: the folder, that name, the socket's, the group, seconds. Until its input ends, or is silent for
so long, or somebody else's socket is there."""
