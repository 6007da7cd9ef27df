// git of the toolbox, as the SDK uses it, with a server in the sandbox that wants a password.
import { assert, check, client, fails, version } from "./tap.mjs";

const box = await client().create({ labels: { run: `git-${version}` } });
const git = box.git;
const run = async (command) => (await box.process.executeCommand(command)).result;
const url = "http://127.0.0.1:8999/r.git";
const newer = Number(version) > 200;

await box.fs.uploadFile(Buffer.from(`
import base64, http.server, os, subprocess
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:se%cret").decode():
            self.send_response(401); self.send_header("WWW-Authenticate", "Basic realm=x"); self.end_headers(); return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = dict(os.environ, GIT_PROJECT_ROOT="/tmp/srv", GIT_HTTP_EXPORT_ALL="1", REQUEST_METHOD=self.command, PATH_INFO=path, QUERY_STRING=query,
                   REMOTE_USER="me", CONTENT_TYPE=self.headers.get("Content-Type", ""), HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""), CONTENT_LENGTH=str(len(body)))
        head, _, rest = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env=env).stdout.partition(b"\\r\\n\\r\\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\\r\\n")]
        self.send_response(int(dict(lines).get("Status", "200").split()[0]))
        for key, value in lines: self.send_header(key, value)
        self.end_headers(); self.wfile.write(rest)
    do_POST = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 8999), Server).serve_forever()
`), "/tmp/server.py");
// As a file, for bash: the oldest SDK hands commands to sh, which knows no /dev/tcp.
await box.fs.uploadFile(Buffer.from(`mkdir -p /tmp/srv && cd /tmp/srv && git init -q --bare -b main r.git && git -C r.git config http.receivepack true &&
  git clone -q r.git /tmp/seed 2>&1; cd /tmp/seed && git checkout -q -b main; echo one > a && git add a && git -c user.name=n -c user.email=e commit -q -m first && git push -q origin main &&
  git checkout -q -b side && echo side > s && git add s && git -c user.name=n -c user.email=e commit -q -m side && git push -q origin side
  (setsid python3 /tmp/server.py >/tmp/server.log 2>&1 &) ; until (echo > /dev/tcp/127.0.0.1/8999) 2>/dev/null; do sleep 0.1; done
`), "/tmp/setup.sh");
await run("bash /tmp/setup.sh");

await check("clone with credentials: they are nowhere in the sandbox afterwards", async () => {
  await git.clone(url, "repo", undefined, undefined, "me", "se%cret");
  assert.equal(await run("cat /home/daytona/repo/a; git -C /home/daytona/repo rev-parse --abbrev-ref HEAD"), "one\nmain\n");
  await git.clone("http://me:se%25cret@127.0.0.1:8999/r.git", "/tmp/inline", "side");
  assert.equal(await run("git -C /tmp/inline remote get-url origin; cat /tmp/inline/s"), `${url}\nside\n`);
  assert.equal(await run("grep -rlE 'se(%|%25)cret' /home/daytona /tmp/inline /tmp/cove* 2>/dev/null; cat /proc/[0-9]*/environ 2>/dev/null | grep -c 'se%c[r]et'"), "0\n");
});
await check("clone: wrong credentials are 401, without them in the message; a missing repository is 404", async () => {
  const error = await fails("DaytonaAuthenticationError", 401, () => git.clone(url, "/tmp/w1", undefined, undefined, "me", "wr0ng"));
  assert.doesNotMatch(error.message, /wr0ng/);
  if (newer) assert.equal(error.constructor.name, "DaytonaGitAuthFailedError");
  await fails("DaytonaAuthenticationError", 401, () => git.clone(url, "/tmp/w2"));
  await fails("DaytonaNotFoundError", 404, () => git.clone("http://127.0.0.1:8999/none.git", "/tmp/w3", undefined, undefined, "me", "se%cret"));
  await fails("DaytonaNotFoundError", 404, () => git.clone(url, "/tmp/w4", "none", undefined, "me", "se%cret"));
  await fails("DaytonaValidationError", 400, () => git.clone("ext::sh -c id", "/tmp/w5"));
});
await check("clone at a commit is detached", async () => {
  const commit = (await run("git -C /tmp/seed rev-parse main")).trim();
  await git.clone(url, "/tmp/at", undefined, commit, "me", "se%cret");
  assert.equal(await run("git -C /tmp/at status | head -1"), `HEAD detached at ${commit.slice(0, 7)}\n`);
});
await check("status: branch, upstream, files", async () => {
  await run("cd /home/daytona/repo && echo two >> a && echo new > 'n w' && echo staged > st && git add st");
  const status = await git.status("repo");
  assert.deepEqual([status.currentBranch, status.branchPublished, status.ahead, status.behind], ["main", true, 0, 0]);
  const files = status.fileStatus.map((one) => [one.name, one.staging, one.worktree]).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  assert.deepEqual(files, [["a", "Unmodified", "Modified"], ["n w", "Untracked", "Untracked"], ["st", "Added", "Unmodified"]]);
});
await check("add and commit", async () => {
  await git.add("repo", ["a", "n w"]);
  const { sha } = await git.commit("repo", "a 'message'\n\nof lines", "An Author", "author@example.org");
  assert.equal(sha, (await run("git -C /home/daytona/repo rev-parse HEAD")).trim());
  assert.equal(await run("git -C /home/daytona/repo log -1 --format='%an %ae %s'"), "An Author author@example.org a 'message'\n");
  assert.equal((await git.status("repo")).ahead, 1);
  await fails("DaytonaConflictError", 409, () => git.commit("repo", "nothing", "a", "b"));
  await git.commit("repo", "empty", "a", "b", true);
});
await check("push and pull, with the credentials of the call", async () => {
  await fails("DaytonaAuthenticationError", 401, () => git.push("repo"));
  await git.push("repo", "me", "se%cret");
  assert.equal((await git.status("repo")).ahead, 0);
  await git.push("repo", "me", "se%cret");
  await run("cd /tmp/seed && git checkout -q main && git pull -q && echo more > more && git add more && git -c user.name=n -c user.email=e commit -q -m more && git push -q");
  await git.pull("repo", "me", "se%cret");
  assert.equal(await run("cat /home/daytona/repo/more"), "more\n");
  await git.pull("repo", "me", "se%cret");
});
await check("push of what is behind is 409", async () => {
  await run("cd /tmp/seed && echo x > x && git add x && git -c user.name=n -c user.email=e commit -q -m x && git push -q");
  await git.commit("repo", "mine", "a", "b", true);
  const error = await fails("DaytonaConflictError", 409, () => git.push("repo", "me", "se%cret"));
  if (newer) assert.equal(error.constructor.name, "DaytonaGitPushRejectedError");
  await fails("DaytonaConflictError", 409, () => git.pull("repo", "me", "se%cret"));
});
await check("branches: create switches, also with changes; checkout; delete", async () => {
  await run("echo dirty >> /home/daytona/repo/a");
  await git.createBranch("repo", "feature/x");
  assert.equal((await git.status("repo")).currentBranch, "feature/x");
  await fails("DaytonaConflictError", 409, () => git.createBranch("repo", "main"));
  assert.deepEqual((await git.branches("repo")).branches.sort(), ["feature/x", "main"]);
  await fails("DaytonaConflictError", 409, () => git.deleteBranch("repo", "feature/x"));
  await git.checkoutBranch("repo", "main");
  await git.deleteBranch("repo", "feature/x");
  assert.deepEqual((await git.branches("repo")).branches, ["main"]);
  await fails("DaytonaNotFoundError", 404, () => git.checkoutBranch("repo", "none"));
  await fails("DaytonaNotFoundError", 404, () => git.deleteBranch("repo", "none"));
});
await check("what is no repository is 404; hooks do not run", async () => {
  await fails("DaytonaNotFoundError", 404, () => git.status("/tmp"));
  await fails("DaytonaNotFoundError", 404, () => git.branches("/tmp/no-such"));
  await run("cd /home/daytona/repo && printf '#!/bin/sh\\ntouch /tmp/hooked\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit");
  await git.commit("repo", "hook", "a", "b", true);
  assert.equal(await run("ls /tmp/hooked 2>&1 | wc -l; ls /tmp/hooked 2>/dev/null"), "1\n");
});
if (git.init) {
  await check("init, reset and restore", async () => {
    await git.init("made", false, "trunk");
    await git.init("/tmp/bare.git", true);
    assert.equal(await run("git -C made symbolic-ref --short HEAD; git -C /tmp/bare.git rev-parse --is-bare-repository"), "trunk\ntrue\n");
    await run("cd made && echo 1 > f && echo 1 > g");
    await git.add("made", ["f", "g"]);
    await git.commit("made", "one", "a", "b@c");
    await run("cd made && echo 2 > f && echo 2 > g");
    await git.add("made", ["f"]);
    await git.reset("made", undefined, undefined, ["f"]);
    assert.equal(await run("git -C made diff --cached --name-only; cat made/f"), "2\n");
    await git.restore("made", ["f"]);
    assert.equal(await run("cat made/f made/g"), "1\n2\n");
    await git.add("made", ["g"]);
    await git.restore("made", ["g"], true);
    assert.equal(await run("git -C made diff --cached --name-only; cat made/g"), "2\n");
    await git.reset("made", "hard", "HEAD");
    assert.equal(await run("cat made/g"), "1\n");
    await fails("DaytonaValidationError", 400, () => git.reset("made", "odd"));
    await fails("DaytonaValidationError", 400, () => git.reset("made", "hard", "--exec=id"));
    await fails("DaytonaNotFoundError", 404, () => git.restore("made", ["none"]));
  });
  await check("remotes, without the credentials of their URLs", async () => {
    await git.remoteAdd("made", "origin", "http://me:se%25cret@127.0.0.1:8999/r.git");
    assert.deepEqual((await git.remotes("made")).remotes.map((one) => [one.name, one.url]), [["origin", url]]);
    await fails("DaytonaConflictError", 409, () => git.remoteAdd("made", "origin", "http://127.0.0.1:8999/other.git"));
    await git.remoteAdd("made", "origin", "http://127.0.0.1:8999/other.git", false, true);
    assert.equal(await git.remoteGet("made", "origin"), "http://127.0.0.1:8999/other.git");
    await fails("DaytonaValidationError", 400, () => git.remoteAdd("made", "evil", "ext::sh -c id"));
  });
  await check("configuration, and credentials that are stored on request", async () => {
    await git.setConfig("alias.x", "-not an option");
    assert.equal(await git.getConfig("alias.x"), "-not an option");
    assert.equal(await git.getConfig("alias.none"), undefined);
    await git.configureUser("Ann", "ann@example.org", "local", "made");
    assert.equal(await run("git -C made config user.name; git config --global user.name"), "Ann\n");
    await fails("DaytonaValidationError", 400, () => git.setConfig("x", "y"));
    await fails("DaytonaValidationError", 400, () => git.setConfig("a.b", "y", "odd"));
    await git.dangerouslyAuthenticate("me", "se%cret", "127.0.0.1:8999", "http");
    await git.clone(url, "/tmp/stored");
    assert.equal(await run("cat /tmp/stored/a | head -1; git ls-remote " + url + " side | wc -l; stat -c %a ~/.git-credentials"), "one\n1\n600\n");
  });
}
await box.delete();
process.exit();
