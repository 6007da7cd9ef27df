#!/usr/bin/env python3
"""What a backup holds: what git ignores stays out of it as git itself says, with git in the sandbox
and without, excludes begin where they say, and files with several names stay one file."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cove as c  # noqa: E402

GIT = "git -c user.name=t -c user.email=t@t "
# One ignore file for each directory, with every form that gitignore(5) names.
TREE = r"""
mkdir -p /workspace/r && cd /workspace/r && git init -q .
mkdir -p src/deep/er build logs 'sp ace' keep/inner node_modules/a a/b/c x/y/z doc/frotz
printf '%s\n' .env '*.log' '!important.log' build/ /root-only 'sp ace/' '**/cache' 'a/**/leaf' '\#hash' 'trail\ ' 'doc/frotz/' \
    '[[:digit:]]*.num' 'x/*' '!x/y' '# comment' '' 'node_modules' 'tracked.txt' 'ghost/' > .gitignore
printf '%s\n' '!local.log' '/only-here' '*.tmp' > src/.gitignore
printf '%s\n' '*' '!.gitignore' '!inner' > keep/.gitignore
printf '%s\n' 'excluded-by-info' > .git/info/exclude
touch .env src/.env a.log important.log root-only src/root-only src/local.log src/other.log src/only-here src/deep/only-here \
    src/deep/a.tmp build/out src/build 'sp ace/f' cache keep/inner/f keep/f node_modules/a/f a/b/c/leaf a/leaf b-leaf '#hash' 'trail ' \
    doc/frotz/f 7a.num a7.num x/f x/y/f x/y/z/f excluded-by-info src/excluded-by-info tracked.txt plain src/plain src/deep/er/plain
mkdir ghost && touch ghost/tracked ghost/not
git add -f tracked.txt ghost/tracked && """ + GIT + """commit -qm first
"""


def names(cove, box, command):
    return sorted(cove.out(box, command).split("\n")[:-1])


def pack(cove, box, expect=200, **fields):
    """The files of a backup of /workspace/r, restored elsewhere."""
    base = "/v1/sandboxes/%s/api/backup/" % box["id"]
    archive = "/var/backups/%s.sqsh" % os.urandom(4).hex()
    made = cove.post(base + "create", dict({"dir": "/workspace/r", "archivePath": archive}, **fields))
    c.same(made.status, expect, "a backup is made") if made.status != expect else None
    back = cove.post(base + "restore", {"dir": "/tmp/back", "archivePath": archive})
    c.same(back.status, 200, "and restored") if back.status != 200 else None
    return names(cove, box, "cd /tmp/back && find . -type f -not -path './.git/*' | cut -c3-"), made.json


c.need_root()
cove = c.Cove()
box = cove.create()
cove.run(box, TREE)
wanted = names(cove, box, "cd /workspace/r && git -c core.quotePath=false ls-files -co --exclude-standard")
got, _ = pack(cove, box, gitignore=True)
c.ok(len(wanted) > 15 and got == wanted, "a backup with gitignore holds what git does not ignore", got, wanted)
c.ok(".env" not in got and "src/.env" not in got, ".env stays out of it")
everything = names(cove, box, "cd /workspace/r && find . -type f -not -path './.git/*' | cut -c3-")
c.same(pack(cove, box)[0], everything, "a backup without gitignore has all files")
c.same(cove.out(box, "cd /tmp/back && git log --oneline | wc -l"), "1\n", "the repository itself is part of it")

wanted = [name[4:] for name in wanted if name.startswith("src/")]
base = "/v1/sandboxes/%s/api/backup/" % box["id"]
cove.post(base + "create", {"dir": "/workspace/r/src", "archivePath": "/var/backups/src.sqsh", "gitignore": True})
cove.post(base + "restore", {"dir": "/tmp/back", "archivePath": "/var/backups/src.sqsh"})
c.same(names(cove, box, "cd /tmp/back && find . -type f | cut -c3-"), wanted, "rules above the directory hold in it")

# Without git, and without a repository: only the ignore files count.
cove.run(box, "mkdir /workspace/n && cd /workspace/n && mkdir sub && touch .env sub/.env sub/a && echo .env > .gitignore && "
              "mkdir -p /usr/local/bin && mv $(command -v git) /tmp/git-away")
cove.post(base + "create", {"dir": "/workspace/n", "archivePath": "/var/backups/n.sqsh", "gitignore": True})
cove.post(base + "restore", {"dir": "/tmp/back", "archivePath": "/var/backups/n.sqsh"})
c.same(names(cove, box, "cd /tmp/back && find . -type f | cut -c3-"), [".gitignore", "sub/a"], "a sandbox without git leaves out the same")
cove.run(box, "head -c 2000000 /dev/zero > /workspace/n/sub/.gitignore")
reply = cove.post(base + "create", {"dir": "/workspace/n", "archivePath": "/var/backups/n2.sqsh", "gitignore": True})
c.same((reply.status, reply.json["code"], cove.out(box, "ls /var/backups/n2.sqsh 2>/dev/null; true")), (500, "BACKUP_CREATE_FAILED", ""),
       "an ignore file that cannot be read whole is no backup")

# Excludes.
for excludes, out in ((["/.env"], {".env"}), ([".env"], {".env", "src/.env"}), (["/src/"], {n for n in everything if n.startswith("src/")}),
                      (["/src/deep/**"], {n for n in everything if n.startswith("src/deep/")}), (["**/plain"], {n for n in everything if n.endswith("plain")}),
                      (["/workspace/r/src/plain"], {"src/plain"}), (["/*.log"], {"a.log", "important.log"}), (["x/y"], {"x/y/f", "x/y/z/f"})):
    got, _ = pack(cove, box, excludes=excludes)
    c.same(set(everything) - set(got), out, "excludes %r" % excludes)

# Hard links.
cove.run(box, "rm -rf /workspace/r; mkdir -p /workspace/r/d && cd /workspace/r && head -c 4000000 /dev/urandom > one && "
              "for i in $(seq 20); do ln one d/link$i; done")
_, made = pack(cove, box)
c.ok(made["sizeBytes"] < 5000000, "4 MB with 20 more names are 4 MB", made)
c.same(cove.out(box, "cd /tmp/back && stat -c %h one && find . -type f -links 21 | wc -l && cmp one /workspace/r/one && du -sm . | cut -f1"),
       "21\n21\n4\n", "and come back as one file with 21 names")
c.same(cove.stop(), 0, "cove stops")
c.done()
