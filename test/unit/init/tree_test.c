// Requests to a file worker with many answers: list, find, grep, tar, watch, ports, sweep.
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <time.h>

#include "base/auto.h"
#include "unit/init/grip.h"

static char found[65536]; // paths, one a line, sorted

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// All entries, or all matches as path:line:column:text, and the end in grip_send.
static bool collect(const struct fileop_request *ask)
{
	char *lines[2000];
	size_t count = 0, len = 0;
	bool more = grip_put(ask);

	while (more && grip_get() && grip_send.kind >= FILEOP_ENTRIES) {
		struct fileop_entry entry;
		struct fileop_match match;
		struct unpack in;

		unpack_init(&in, grip_send.rest.at, grip_send.rest.len);
		while (grip_send.kind == FILEOP_ENTRIES && fileop_get_entry(&in, &entry))
			lines[count++] = strdup(entry.path.at);
		while (grip_send.kind == FILEOP_MATCHES && fileop_get_match(&in, &match))
			if (asprintf(&lines[count], "%s:%d:%u:%s", match.path.at, (int)match.line,
				     match.column, match.text.at) > 0)
				count++;
		more = !in.failed;
	}
	qsort(lines, count, sizeof(*lines), compare);
	found[0] = 0;
	for (size_t i = 0; i < count; i++) {
		len += (size_t)snprintf(found + len, sizeof(found) - len, "%s\n", lines[i]);
		free(lines[i]);
	}
	return grip_send.kind == FILEOP_DONE;
}

static bool collect_on(enum fileop_verb verb, const char *path, uint32_t flags)
{
	struct fileop_request ask = grip_ask(verb, path);

	ask.flags = flags;
	return collect(&ask);
}

TEST(opens, "a file worker starts, and a tree is made")
{
	grip_open();
	CHECK(grip_sh("mkdir -p t/src/.hid t/src/deep/er t/node_modules/m t/empty;"
		      "echo 'int main' > t/src/main.c; echo '# x Main' > t/README.md;"
		      "echo secret > t/src/.hid/plain; echo n > t/node_modules/m/index.js;"
		      "printf 'a\\nb main\\nmain c' > t/src/deep/er/long.txt;"
		      "printf 'main\\0bin' > t/src/deep/blob; ln -s /etc t/out; mkfifo t/pipe;"
		      "truncate -s 100000 t/.dot"));
}

TEST(lists, "a list is flat or deep, with what is hidden or without")
{
	CHECK(collect_on(FILEOP_LIST, "t", 0));
	CHECK_STR(found, "README.md\nempty\nnode_modules\nout\npipe\nsrc\n");
	CHECK(grip_send.count == 6);
	CHECK(collect_on(FILEOP_LIST, "t/src", FILEOP_RECURSIVE));
	CHECK_STR(found, ".hid/plain\ndeep\ndeep/blob\ndeep/er\ndeep/er/long.txt\nmain.c\n");
	CHECK(collect_on(FILEOP_LIST, "t", FILEOP_HIDDEN));
	CHECK(strstr(found, ".dot\n") && grip_send.count == 7);
	CHECK(grip_on(FILEOP_LIST, "t/README.md", 0) == ENOTDIR);
	CHECK(grip_on(FILEOP_LIST, "t/none", 0) == ENOENT);
}

TEST(thousands, "1,000 entries come in a few messages, and a limit is told")
{
	struct fileop_request ask = grip_ask(FILEOP_LIST, "many");
	struct timespec a, b;

	CHECK(grip_sh("mkdir many; cd many; seq -f file-%g 1000 | xargs touch"));
	clock_gettime(CLOCK_MONOTONIC, &a);
	CHECK(collect(&ask) && grip_send.count == 1000 && !grip_send.more);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("# %.1f ms\n",
	       (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	ask.limit = 10;
	CHECK(collect(&ask) && grip_send.count == 10 && grip_send.more);
}

TEST(finds, "find goes by name, path, type, size and depth, and does not enter what is excluded")
{
	const char *globs[] = {"*.c", "*.js", "node_modules", NULL};
	struct fileop_request ask = grip_ask(FILEOP_FIND, "t");

	ask.globs = globs;
	ask.includes = 2;
	ask.excludes = 1;
	CHECK(collect(&ask));
	CHECK_STR(found, "src/main.c\n");
	ask.includes = ask.excludes = 0;
	ask.types = 1 << FILEOP_DIRECTORY;
	ask.depth = 1;
	CHECK(collect(&ask));
	CHECK_STR(found, "empty\nnode_modules\nsrc\n");
	ask = grip_ask(FILEOP_FIND, "t");
	ask.flags = FILEOP_HIDDEN;
	ask.min = 5000;
	ask.max = 200000;
	ask.types = 1 << FILEOP_REGULAR;
	CHECK(collect(&ask));
	CHECK_STR(found, ".dot\n");
}

TEST(greps, "grep finds lines of text files by expression or text, within bounds")
{
	struct fileop_request ask = grip_ask(FILEOP_GREP, "t");

	ask.text = STR("^(int )?main");
	CHECK(collect(&ask));
	CHECK_STR(found, "src/deep/er/long.txt:3:1:main c\nsrc/main.c:1:1:int main\n");
	ask.text = STR("main");
	ask.flags = FILEOP_FIXED | FILEOP_NO_CASE;
	CHECK(collect(&ask));
	CHECK_STR(found, "README.md:1:5:# x Main\nsrc/deep/er/long.txt:2:3:b main\n"
			 "src/deep/er/long.txt:3:1:main c\nsrc/main.c:1:5:int main\n");
	ask.limit = 2;
	CHECK(collect(&ask) && grip_send.count == 2 && grip_send.more);
	ask.limit = 0;
	ask.flags = 0;
	ask.text = STR("(");
	CHECK(grip_do(&ask) == -1 && grip_send.why == FILEOP_BAD_PATTERN);
	ask = grip_ask(FILEOP_GREP, "t/src/main.c");
	ask.text = STR("nt");
	ask.flags = FILEOP_FIXED;
	CHECK(collect(&ask));
	CHECK_STR(found, "main.c:1:2:int main\n");
}

TEST(cancels, "a busy file worker ends when its client is gone")
{
	struct fileop_request ask = grip_ask(FILEOP_GREP, "t/evil");

	CHECK(grip_sh("head -c 3000000 /dev/zero | tr '\\0' a > t/evil"));
	ask.text = STR("(a*)*(a*)*(a*)*\\1b");
	CHECK(grip_put(&ask));
	usleep(200000);
	CHECK(grip_let_go());
	grip_hold();
}

static bool pump(int from, int to)
{
	static char room[65536];
	ssize_t n;

	while ((n = read(from, room, sizeof(room))) > 0)
		if (fd_write_all(to, room, (size_t)n) < 0)
			return false;
	return n == 0;
}

TEST(packs, "a tree becomes a tar that tar itself reads, without special files")
{
	const char *globs[] = {"node_modules", "*.md", NULL};
	struct fileop_request ask = grip_ask(FILEOP_PACK, "t");
	static char name[300];
	auto_fd file = -1;

	memset(name, 'l', 250);
	grip_sh("cd t/empty && mkdir -p $(printf 'd%.0s' $(seq 200))/$(printf 'e%.0s' $(seq 200)) "
		"&& printf x > $(printf 'd%.0s' $(seq 200))/$(printf '\\377').bin && "
		"touch -d 1960-01-01 old");
	ask.globs = globs;
	ask.excludes = 2;
	CHECK(grip_do(&ask) == 0 && grip_send.kind == FILEOP_OPENED);
	snprintf(name, sizeof(name), "%s/out.tar", grip.dir);
	file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(pump(grip_fd, file) && grip_get() && grip_send.kind == FILEOP_DONE);
	CHECK(grip_send.skipped == 1);
	CHECK(grip_sh("mkdir re && tar xf out.tar -C re && rm t/pipe && "
		      "diff -r --no-dereference -x node_modules -x '*.md' t re && "
		      "! [ -e re/README.md ] && [ \"$(readlink re/out)\" = /etc ] && "
		      "[ $(stat -c %Y re/empty/old) = $(stat -c %Y t/empty/old) ]"));
	CHECK(grip_on(FILEOP_PACK, "t/src/main.c", 0) == 0 && grip_send.kind == FILEOP_OPENED);
	CHECK(ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
	CHECK(pump(grip_fd, file) && grip_get() && grip_send.count == 1);
	CHECK(grip_sh("[ \"$(tar tf out.tar)\" = main.c ]"));
	CHECK(grip_on(FILEOP_PACK, "t/none", 0) == ENOENT);
}

static int unpack(const char *tar, const char *into)
{
	char path[128];
	auto_fd file = -1;
	int fd;

	if (grip_on(FILEOP_UNPACK, into, 0) != 0 || grip_send.kind != FILEOP_OPENED)
		return -3;
	snprintf(path, sizeof(path), "%s/%s", grip.dir, tar);
	file = open(path, O_RDONLY | O_CLOEXEC);
	fd = grip_fd;
	grip_fd = -1;
	pump(file, fd);
	close(fd);
	if (!grip_get())
		return -2;
	return grip_send.kind == FILEOP_DONE   ? 0
	       : grip_send.why == FILEOP_ERRNO ? grip_send.errnum
					       : -1;
}

TEST(unpacks, "a tar of tar is unpacked: files, links, long names, modes and times")
{
	CHECK(grip_sh("cp -a re two && chmod 500 two/src/deep && ln two/src/main.c two/hard && "
		      "tar cf gnu.tar -C two . && tar --format=pax -cf pax.tar -C two . && "
		      "tar --format=ustar -cf u.tar -C two src"));
	CHECK(unpack("gnu.tar", "new/gnu") == 0 && grip_send.skipped == 0);
	CHECK(grip_sh(
		"diff -r --no-dereference two new/gnu && [ new/gnu/hard -ef new/gnu/src/main.c ]"
		" && [ \"$(stat -c %a new/gnu/src/deep)\" = 500 ] && "
		"[ $(stat -c %Y new/gnu/src) = $(stat -c %Y two/src) ]"));
	CHECK(unpack("pax.tar", "new/pax") == 0 && grip_sh("diff -r --no-dereference two new/pax"));
	CHECK(unpack("u.tar", "new/u") == 0 && grip_sh("diff -r two/src new/u/src"));
	CHECK(unpack("gnu.tar", "new/gnu") == 0); // over what is there
	CHECK(grip_sh("head -c 2000 gnu.tar > cut.tar; echo nonsense > bad.tar"));
	CHECK(unpack("cut.tar", "new/cut") == -1 && grip_send.why == FILEOP_BAD_ARCHIVE);
	CHECK(unpack("bad.tar", "new/bad") == -1 && grip_send.why == FILEOP_BAD_ARCHIVE);
	CHECK(unpack("gnu.tar", "out.tar") == -3 && grip_send.errnum == ENOTDIR);
}

TEST(evil, "a hostile tar cannot leave its directory: dots, slashes, links, hard links, nodes")
{
	CHECK(grip_sh(
		"echo safe > sentinel && python3 - <<'E'\n"
		"import tarfile, io\n"
		"t = tarfile.open('evil.tar', 'w')\n"
		"def add(name, **more):\n"
		"    i = tarfile.TarInfo(name)\n"
		"    for k, v in more.items(): setattr(i, k, v)\n"
		"    b = b'pwned'\n"
		"    if i.type == tarfile.REGTYPE: i.size = len(b)\n"
		"    t.addfile(i, io.BytesIO(b))\n"
		"add('../sentinel'); add('a/../../sentinel'); add('/tmp/cove-pwned')\n"
		"add('up', type=tarfile.SYMTYPE, linkname='..'); add('up/sentinel')\n"
		"add('abs', type=tarfile.SYMTYPE, linkname='/'); add('abs/tmp/cove-pwned')\n"
		"add('hard', type=tarfile.LNKTYPE, linkname='../sentinel'); \n"
		"add('hard2', type=tarfile.LNKTYPE, linkname='up/sentinel')\n"
		"add('d/', type=tarfile.DIRTYPE); add('d', type=tarfile.SYMTYPE, linkname='..')\n"
		"add('d/sentinel')\n"
		"add('up', type=tarfile.DIRTYPE); add('up/fine')\n"
		"add('null', type=tarfile.CHRTYPE, devmajor=1, devminor=3)\n"
		"add('fifo', type=tarfile.FIFOTYPE); add('suid', mode=0o6755); add('last')\n"
		"t.close()\n"
		"E"));
	CHECK(unpack("evil.tar", "jail") == 0);
	CHECK(grip_send.skipped == 10 && str_is(grip_send.text, "../sentinel"));
	CHECK(grip_sh("[ \"$(cat sentinel)\" = safe ] && [ ! -e /tmp/cove-pwned ] && "
		      "[ -f jail/last ] && [ ! -e jail/null ] && [ ! -e jail/fifo ] && "
		      "[ -f jail/d/sentinel ] && [ -f jail/up/fine ] && [ ! -L jail/up ] && "
		      "[ \"$(stat -c %a jail/suid)\" = 755 ]"));
}

static bool hears(enum fileop_event_type type, const char *path)
{
	for (int i = 0; i < 50; i++) {
		struct pollfd ready = {.fd = grip.sock, .events = POLLIN};
		struct fileop_event event;
		struct unpack in;

		if (poll(&ready, 1, 2000) <= 0 || !grip_get() || grip_send.kind != FILEOP_EVENTS)
			return false;
		unpack_init(&in, grip_send.rest.at, grip_send.rest.len);
		found[0] = 0;
		while (fileop_get_event(&in, &event))
			snprintf(found + strlen(found), sizeof(found) - strlen(found), "%d %s|",
				 event.type, event.path.at);
		unpack_init(&in, grip_send.rest.at, grip_send.rest.len);
		while (fileop_get_event(&in, &event))
			if (event.type == type && str_is(event.path, path))
				return true;
	}
	return false;
}

TEST(watches, "a watch reports changes, in new directories too, merged, and its end")
{
	const char *globs[] = {".git", "node_modules", NULL};
	struct fileop_request ask = grip_ask(FILEOP_WATCH, "w");

	CHECK(grip_sh("mkdir -p w/sub w/.git"));
	ask.globs = globs;
	ask.excludes = 2;
	ask.flags = FILEOP_RECURSIVE;
	CHECK(grip_do(&ask) == 0 && grip_send.kind == FILEOP_DONE && grip_send.count == 2);
	CHECK(grip_sh("for i in 1 2 3 4 5; do echo $i >> w/sub/f; done; touch w/.git/x"));
	CHECK(hears(FILEOP_MODIFY, "sub/f"));
	CHECK_STR(found, "0 sub/f|1 sub/f|");
	CHECK(grip_sh("mkdir -p w/new/deep; echo 1 > w/new/deep/x"));
	CHECK(hears(FILEOP_MODIFY, "new/deep/x") || strstr(found, "0 new/deep/x|"));
	CHECK(grip_sh("sleep 0.2; echo 2 >> w/new/deep/x") && hears(FILEOP_MODIFY, "new/deep/x"));
	CHECK(grip_sh("mv w/new w/old; echo 3 >> w/old/deep/x"));
	CHECK(hears(FILEOP_MODIFY, "old/deep/x") && strstr(found, "3 new|4 old|"));
	CHECK(grip_sh("rm w/sub/f") && hears(FILEOP_DELETE, "sub/f"));
	CHECK(grip_sh("mv w gone") && hears(FILEOP_STOPPED, ""));
	CHECK(grip_get() && grip_send.kind == FILEOP_DONE);
}

TEST(atomic, "a file that cove replaces is reported as created or changed, not as a rename")
{
	struct fileop_request ask = grip_ask(FILEOP_WATCH, "gone");
	struct grip first = grip, second;

	CHECK(grip_do(&ask) == 0 && grip_send.kind == FILEOP_DONE);
	grip_hold();
	second = grip;
	CHECK(grip_write("gone/atom", 0, "1") == 0);
	grip = first;
	CHECK(hears(FILEOP_MODIFY, "atom"));
	CHECK_STR(found, "0 atom|1 atom|");
	grip = second;
	CHECK(grip_write("gone/atom", 0, "2") == 0);
	grip = first;
	CHECK(hears(FILEOP_MODIFY, "atom"));
	CHECK_STR(found, "1 atom|");
	CHECK(grip_let_go());
	grip = second;
}

TEST(ports, "listening ports are listed, and can be connected to")
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	socklen_t len = sizeof(at);
	auto_fd listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct fileop_request ask = grip_ask(FILEOP_DIAL, "/");
	struct fileop_port port;
	bool heard = false;
	struct unpack in;

	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 4) == 0);
	getsockname(listener, (struct sockaddr *)&at, &len);
	CHECK(grip_on(FILEOP_PORTS, "/", 0) == 0 && grip_send.kind == FILEOP_PORTS_ARE);
	unpack_init(&in, grip_send.rest.at, grip_send.rest.len);
	while (fileop_get_port(&in, &port))
		heard |= port.port == ntohs(at.sin_port) && !port.any;
	CHECK(heard && grip_get() && grip_send.kind == FILEOP_DONE);
	ask.number = ntohs(at.sin_port);
	CHECK(grip_do(&ask) == 0 && grip_send.kind == FILEOP_OPENED);
	CHECK(send(grip_fd, "x", 1, 0) == 1 && grip_get());
	close(take_fd(&listener));
	CHECK(grip_do(&ask) == ECONNREFUSED);
}

TEST(processes, "all processes are listed; a signal goes to the one that started then")
{
	struct fileop_request ask = grip_ask(FILEOP_SIGNAL, "/");
	struct fileop_process process, child = {0};
	struct unpack in;
	int status = 0;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(1);
	}
	do {
		CHECK(grip_on(FILEOP_PROCESSES, "/", 0) == 0 &&
		      grip_send.kind == FILEOP_PROCESSES_ARE);
		for (bool more = true; more; more = grip_get() && grip_send.kind != FILEOP_DONE) {
			unpack_init(&in, grip_send.rest.at, grip_send.rest.len);
			while (fileop_get_process(&in, &process))
				if (process.pid == pid) {
					child = process;
					child.command = STR("");
					if (str_is(process.command, "sleep 1000"))
						child.command = STR("sleep");
				}
			CHECK(!in.failed);
		}
	} while (child.command.len == 0);
	CHECK(child.ppid == getpid() && child.rss > 0);
	ask.pid = (uint32_t)pid;
	ask.number = SIGTERM;
	ask.since = child.started_ms + 10;
	CHECK(grip_do(&ask) == ESRCH && waitpid(pid, &status, WNOHANG) == 0);
	ask.since = child.started_ms;
	CHECK(grip_do(&ask) == 0 && waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGTERM);
	CHECK(grip_do(&ask) == ESRCH);
}

TEST(sweeps, "a sweep signals the processes that a process has started since, and nothing else")
{
	struct fileop_request ask = grip_ask(FILEOP_SWEEP, "/");
	struct timespec now;
	int pipes[2];
	pid_t pid;

	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		setsid();
		dup2(pipes[0], 0);
		execl("/bin/sh", "sh", "-c",
		      "exec >/dev/null 2>&1; sleep 1000 & read x; (sleep 1000 &); setsid sleep "
		      "1000 & wait",
		      NULL);
		_exit(1);
	}
	usleep(300000);
	clock_gettime(CLOCK_BOOTTIME, &now);
	CHECK(write(pipes[1], "\n", 1) == 1);
	usleep(300000);
	ask.pid = (uint32_t)pid;
	ask.since = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	CHECK(grip_do(&ask) == 0);
	CHECK(grip_send.count == 2);
	ask.number = SIGKILL;
	CHECK(grip_do(&ask) == 0 && grip_send.count >= 2);
	usleep(100000);
	ask.number = 0;
	CHECK(grip_do(&ask) == 0 && grip_send.count == 0);
	ask.since = 0;
	CHECK(grip_do(&ask) == 0 && grip_send.count == 1);
	ask.number = SIGKILL;
	CHECK(grip_do(&ask) == 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
}

TEST(closes, "a file worker ends with its socket")
{
	CHECK(grip_let_go());
	grip_close();
}
