// Directories that are exchanged with links while a file worker works on them. The worker lives
// in a root of its own: files outside of it must never be read, changed or removed by a request,
// and the target of a link is no part of the tree of a recursive request.
//
// COVE_SOAK=1: a million tries; else a few seconds.
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "base/auto.h"
#include "unit/init/grip.h"

#define SWAP 2 // RENAME_EXCHANGE

static int attacker = -1;
static long tries;
static bool is_root;

// The layout: DIR/outside/f is the secret; DIR/jail is the worker's root. In there t/d is a
// directory and t/l a link to /keep, and o/d is one and o/l a link that climbs out.
static const char *const layout =
	"mkdir -p outside jail/t/d/sub jail/keep jail/o/d jail/proc jail/shm && "
	"echo SECRET > outside/f && chmod 711 outside && chmod 604 outside/f && "
	"echo SECRET > jail/keep/f && echo SECRET > jail/keep/g && "
	"echo inside > jail/t/d/f && echo inside > jail/t/d/sub/g && echo inside > jail/o/d/f && "
	"ln -s /keep jail/t/l && ln -s ../../outside jail/o/l";

static void hold_in_jail(void)
{
	char path[96];
	int pair[2];

	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
	grip.pid = fork();
	if (grip.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(path, sizeof(path), "%s/jail", grip.dir);
		dup2(pair[1], 3);
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    chdir(path) || mount("proc", "proc", "proc", 0, NULL) ||
		    mount("tmpfs", "shm", "tmpfs", 0, NULL) || chroot(".") || chdir("/"))
			_exit(9);
		syscall(SYS_close_range, 4, ~0u, 0);
		file_worker_serve(3);
	}
	close(pair[1]);
	grip.sock = pair[0];
}

static void attack(void)
{
	char path[96];

	attacker = fork();
	if (attacker != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/jail", grip.dir);
	if (chdir(path))
		_exit(1);
	for (;;) {
		syscall(SYS_renameat2, AT_FDCWD, "t/d", AT_FDCWD, "t/l", SWAP);
		syscall(SYS_renameat2, AT_FDCWD, "o/d", AT_FDCWD, "o/l", SWAP);
	}
}

static void rest(void)
{
	kill(attacker, SIGKILL);
	waitpid(attacker, NULL, 0);
}

static struct fileop_request ask_for(enum fileop_verb verb, const char *path, uint32_t flags)
{
	struct fileop_request ask = grip_ask(verb, path);

	ask.base = STR("/");
	ask.flags = flags;
	return ask;
}

// All answers to a request. False: one of them has the secret in it.
static bool is_clean(const struct fileop_request *ask)
{
	bool clean = grip_put(ask);

	tries++;
	while (clean && grip_get()) {
		if (memmem(grip_words, sizeof(grip_words), "SECRET", 6) &&
		    (grip_send.kind == FILEOP_BYTES || grip_send.kind >= FILEOP_ENTRIES))
			clean = !memmem(grip_send.rest.at, grip_send.rest.len, "SECRET", 6);
		if (grip_send.kind == FILEOP_OPENED && ask->verb == FILEOP_PACK) {
			static char room[1 << 16];
			ssize_t n;

			while ((n = read(grip_fd, room, sizeof(room))) > 0)
				clean &= !memmem(room, (size_t)n, "SECRET", 6);
		}
		if (grip_send.kind == FILEOP_DONE || grip_send.kind == FILEOP_FAILED ||
		    grip_send.kind == FILEOP_BYTES)
			return clean;
	}
	return false;
}

static bool verb(enum fileop_verb which, const char *path, uint32_t flags)
{
	struct fileop_request ask = ask_for(which, path, flags);

	ask.text = which == FILEOP_GREP ? STR("SECRET") : STR("");
	ask.bytes = which == FILEOP_WRITE ? STR("written") : STR("");
	ask.mode = which == FILEOP_CHMOD ? 0700 : FILEOP_KEEP_MODE;
	return is_clean(&ask);
}

static bool move(const char *from, const char *to)
{
	struct fileop_request ask = ask_for(FILEOP_MOVE, from, 0);

	ask.other = str_of(to);
	return is_clean(&ask);
}

static bool upload(const char *path)
{
	struct fileop_request ask = ask_for(FILEOP_BEGIN, path, 0);

	tries++;
	if (!grip_put(&ask) || !grip_get())
		return false;
	if (grip_send.kind == FILEOP_FAILED)
		return true;
	fd_write_all(grip_fd, "uploaded", 8);
	return grip_get() && verb(FILEOP_COMMIT, "", 0);
}

static bool unpack(const char *into)
{
	char path[96];
	struct fileop_request ask = ask_for(FILEOP_UNPACK, into, 0);
	static char room[1 << 16];
	static ssize_t len;
	int fd;

	tries++;
	if (len == 0) {
		snprintf(path, sizeof(path), "%s/evil.tar", grip.dir);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		len = read(fd, room, sizeof(room));
		close(fd);
	}
	if (!grip_put(&ask) || !grip_get())
		return false;
	if (grip_send.kind == FILEOP_FAILED)
		return true;
	fd = grip_fd;
	grip_fd = -1;
	fd_write_all(fd, room, (size_t)len);
	close(fd);
	return grip_get();
}

// What is outside, and what the link inside leads to, is as it was made.
static bool is_whole(void)
{
	return grip_sh("[ \"$(cd outside; ls -A)\" = f ] && [ \"$(cat outside/f)\" = SECRET ] && "
		       "[ \"$(stat -c %a outside outside/f | tr '\\n' ' ')\" = '711 604 ' ]");
}

static bool is_kept(void)
{
	return grip_sh("[ \"$(cd jail/keep; ls -A | tr '\\n' ' ')\" = 'f g ' ] && "
		       "[ \"$(cat jail/keep/f jail/keep/g | sort -u)\" = SECRET ] && "
		       "[ \"$(stat -c %a jail/keep jail/keep/f | tr '\\n' ' ')\" = '755 644 ' ]");
}

static long wanted(long few, long many)
{
	return getenv("COVE_SOAK") ? many : few;
}

TEST(opens, "a jail is made, and somebody swaps directories with links in it")
{
	is_root = geteuid() == 0;
	if (!is_root) {
		printf("# skip: needs root\n");
		tap_bad |= getenv("COVE_TEST_MUST") != NULL;
		return;
	}
	umask(022);
	// In memory: a disk would be what is tested most.
	snprintf(grip.dir, sizeof(grip.dir), "/dev/shm/cove-race-%d", getpid());
	mkdir(grip.dir, 0755);
	signal(SIGPIPE, SIG_IGN);
	CHECK(grip_sh(layout));
	CHECK(grip_sh("mkdir -p p/d/sub && echo pwned > p/d/x && echo pwned > p/d/sub/y && "
		      "echo pwned > p/d/f && tar cf evil.tar -C p d d/x d/sub/y && rm -r p"));
	hold_in_jail();
	attack();
}

TEST(control, "a lookup that checks its last component alone is led outside")
{
	char path[96], byte;
	long seen = 0, all = 0;

	if (!is_root)
		return;
	snprintf(path, sizeof(path), "%s/jail/o/d/f", grip.dir);
	for (time_t end = time(NULL) + 5; time(NULL) < end && seen == 0; all++) {
		int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && read(fd, &byte, 1) == 1)
			seen += byte == 'S';
		if (fd >= 0)
			close(fd);
	}
	printf("# %ld of %ld\n", seen, all);
	CHECK(seen > 0);
}

TEST(outside, "no request reads or changes files outside of its root")
{
	tries = 0;
	for (long i = 0; is_root && tries < wanted(8000, 600000); i++) {
		CHECK(verb(FILEOP_READ, "o/d/f", 0) && verb(FILEOP_STAT, "o/d/f", FILEOP_FOLLOW));
		CHECK(verb(FILEOP_READ, "/o/d/../../../outside/f", 0));
		CHECK(verb(FILEOP_WRITE, "o/d/f", 0) &&
		      verb(FILEOP_WRITE, "o/d/n/w", FILEOP_PARENTS));
		CHECK(upload("o/d/f") &&
		      verb(FILEOP_LIST, "o/d", FILEOP_RECURSIVE | FILEOP_HIDDEN));
		CHECK(verb(FILEOP_MKDIR, "o/d/m/n", FILEOP_PARENTS) &&
		      verb(FILEOP_CHMOD, "o/d/f", 0));
		CHECK(verb(FILEOP_CHMOD, "o", FILEOP_RECURSIVE) && verb(FILEOP_GREP, "o/d", 0));
		CHECK(verb(FILEOP_FIND, "o", FILEOP_HIDDEN) && verb(FILEOP_READLINK, "o/d", 0));
		CHECK(move("o/d/f", "o/d/v") && move("o/d/v", "o/d/f"));
		CHECK(verb(FILEOP_PACK, "o/d", 0) &&
		      verb(FILEOP_REMOVE, "o/d/m", FILEOP_RECURSIVE));
		CHECK(verb(FILEOP_REMOVE, "o/d/f", 0) &&
		      verb(FILEOP_READ, "/proc/self/cwd/o/d/f", 0));
		if (i % 8 == 0)
			CHECK(unpack("o") && unpack("o/d"));
	}
	printf("# %ld tries\n", tries);
	CHECK(!is_root || is_whole());
}

TEST(trees, "recursion does not leave its tree by a link that was a directory")
{
	tries = 0;
	while (is_root && tries < wanted(4000, 300000)) {
		CHECK(verb(FILEOP_LIST, "t", FILEOP_RECURSIVE) && verb(FILEOP_GREP, "t", 0));
		CHECK(verb(FILEOP_FIND, "t", 0) && verb(FILEOP_PACK, "t", 0));
		CHECK(verb(FILEOP_CHMOD, "t", FILEOP_RECURSIVE) && unpack("t"));
	}
	printf("# %ld tries\n", tries);
	CHECK(!is_root || is_kept());
}

static int jail(void)
{
	static int fd = -1;
	char path[96];

	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/jail", grip.dir);
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return fd;
}

static const char *const exec_cgroups[] = {"1", "2", "3", "4", "sub/1", "sub/2", "sub/3", "sub/4"};

static void sweep_branch(const char *branch)
{
	char path[64];

	if (unlinkat(jail(), branch, 0) == 0)
		return; // the link
	for (size_t i = 0; i < sizeof(exec_cgroups) / sizeof(*exec_cgroups); i++) {
		snprintf(path, sizeof(path), "%s/%s", branch, exec_cgroups[i]);
		unlinkat(jail(), path, 0);
	}
	snprintf(path, sizeof(path), "%s/sub", branch);
	unlinkat(jail(), path, AT_REMOVEDIR);
	unlinkat(jail(), branch, AT_REMOVEDIR);
}

// A fresh t, made aside and put there in one step; what a broken removal left goes first. No shell:
// it would take longer than what is tried.
static bool plant(void)
{
	char path[64];
	bool sound;

	renameat(jail(), "t", jail(), "old");
	for (int i = 0; i < 100 && unlinkat(jail(), "old", AT_REMOVEDIR) && errno != ENOENT; i++) {
		sweep_branch("old/d"); // they may change places meanwhile
		sweep_branch("old/l");
	}
	sound = mkdirat(jail(), "new", 0755) == 0 && mkdirat(jail(), "new/d", 0755) == 0 &&
		mkdirat(jail(), "new/d/sub", 0755) == 0 && symlinkat("/keep", jail(), "new/l") == 0;
	for (size_t i = 0; i < sizeof(exec_cgroups) / sizeof(*exec_cgroups); i++) {
		int fd;

		snprintf(path, sizeof(path), "new/d/%s", exec_cgroups[i]);
		fd = openat(jail(), path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		sound &= fd >= 0 && fd_write_all(fd, "inside", 6) == 0;
		close(fd);
	}
	return sound && renameat(jail(), "new", jail(), "t") == 0;
}

TEST(removal, "neither a recursive delete nor a move leaves its tree")
{
	long removes = 0, moves = 0, many = wanted(4000, 120000);

	CHECK(!is_root || grip_sh("cd jail; mv -T t old; rm -rf old")); // of the tests before
	while (is_root && removes + moves < many) {
		CHECK(plant() && verb(FILEOP_REMOVE, "t", FILEOP_RECURSIVE));
		removes++;
		if (removes % 4 == 0) {
			CHECK(plant() && move("t", "/shm/moved") && verb(FILEOP_GREP, "/shm", 0));
			CHECK(verb(FILEOP_REMOVE, "/shm/moved", FILEOP_RECURSIVE));
			moves++;
			removes++;
		}
		if (removes % 512 == 0)
			CHECK(is_kept());
	}
	printf("# %ld removes, %ld moves\n", removes, moves);
	CHECK(!is_root || (is_kept() && is_whole()));
}

TEST(closes, "all of it goes")
{
	if (!is_root)
		return;
	rest();
	CHECK(grip_let_go());
	grip_close();
}
