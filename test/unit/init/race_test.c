// Directories that are swapped with links while a hand works on them, over and over. The hand lives
// in a root of its own: what is outside of it must never be read, changed or gone, by any verb; and
// what a link inside leads to is no part of the tree that a recursive verb was asked for.
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

// The layout: DIR/outside/f is the secret; DIR/jail is the hand's root. In there t/d is a directory
// and t/l a link to /keep, and o/d is one and o/l a link that climbs out.
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
		serve_run(3);
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

static struct reach_ask ask_for(enum reach_verb verb, const char *path, uint32_t flags)
{
	struct reach_ask ask = grip_ask(verb, path);

	ask.base = STR("/");
	ask.flags = flags;
	return ask;
}

// All answers to a request. False: one of them has the secret in it.
static bool is_clean(const struct reach_ask *ask)
{
	bool clean = grip_put(ask);

	tries++;
	while (clean && grip_get()) {
		if (memmem(grip_words, sizeof(grip_words), "SECRET", 6) &&
		    (grip_say.kind == REACH_BYTES || grip_say.kind >= REACH_ENTRIES))
			clean = !memmem(grip_say.rest.at, grip_say.rest.len, "SECRET", 6);
		if (grip_say.kind == REACH_OPENED && ask->verb == REACH_PACK) {
			static char room[1 << 16];
			ssize_t n;

			while ((n = read(grip_fd, room, sizeof(room))) > 0)
				clean &= !memmem(room, (size_t)n, "SECRET", 6);
		}
		if (grip_say.kind == REACH_DONE || grip_say.kind == REACH_FAILED ||
		    grip_say.kind == REACH_BYTES)
			return clean;
	}
	return false;
}

static bool verb(enum reach_verb which, const char *path, uint32_t flags)
{
	struct reach_ask ask = ask_for(which, path, flags);

	ask.text = which == REACH_GREP ? STR("SECRET") : STR("");
	ask.bytes = which == REACH_WRITE ? STR("written") : STR("");
	ask.mode = which == REACH_CHMOD ? 0700 : REACH_KEEP_MODE;
	return is_clean(&ask);
}

static bool move(const char *from, const char *to)
{
	struct reach_ask ask = ask_for(REACH_MOVE, from, 0);

	ask.other = str_of(to);
	return is_clean(&ask);
}

static bool upload(const char *path)
{
	struct reach_ask ask = ask_for(REACH_BEGIN, path, 0);

	tries++;
	if (!grip_put(&ask) || !grip_get())
		return false;
	if (grip_say.kind == REACH_FAILED)
		return true;
	fd_write_all(grip_fd, "uploaded", 8);
	return grip_get() && verb(REACH_COMMIT, "", 0);
}

static bool unpack(const char *into)
{
	char path[96];
	struct reach_ask ask = ask_for(REACH_UNPACK, into, 0);
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
	if (grip_say.kind == REACH_FAILED)
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

TEST(control, "a look-up that trusts its last name alone is led astray")
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

TEST(outside, "no verb reads or changes what is outside of its root")
{
	tries = 0;
	for (long i = 0; is_root && tries < wanted(8000, 600000); i++) {
		CHECK(verb(REACH_READ, "o/d/f", 0) && verb(REACH_STAT, "o/d/f", REACH_FOLLOW));
		CHECK(verb(REACH_READ, "/o/d/../../../outside/f", 0));
		CHECK(verb(REACH_WRITE, "o/d/f", 0) && verb(REACH_WRITE, "o/d/n/w", REACH_PARENTS));
		CHECK(upload("o/d/f") && verb(REACH_LIST, "o/d", REACH_RECURSIVE | REACH_HIDDEN));
		CHECK(verb(REACH_MKDIR, "o/d/m/n", REACH_PARENTS) && verb(REACH_CHMOD, "o/d/f", 0));
		CHECK(verb(REACH_CHMOD, "o", REACH_RECURSIVE) && verb(REACH_GREP, "o/d", 0));
		CHECK(verb(REACH_FIND, "o", REACH_HIDDEN) && verb(REACH_READLINK, "o/d", 0));
		CHECK(move("o/d/f", "o/d/v") && move("o/d/v", "o/d/f"));
		CHECK(verb(REACH_PACK, "o/d", 0) && verb(REACH_REMOVE, "o/d/m", REACH_RECURSIVE));
		CHECK(verb(REACH_REMOVE, "o/d/f", 0) &&
		      verb(REACH_READ, "/proc/self/cwd/o/d/f", 0));
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
		CHECK(verb(REACH_LIST, "t", REACH_RECURSIVE) && verb(REACH_GREP, "t", 0));
		CHECK(verb(REACH_FIND, "t", 0) && verb(REACH_PACK, "t", 0));
		CHECK(verb(REACH_CHMOD, "t", REACH_RECURSIVE) && unpack("t"));
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

static const char *const leaves[] = {"1", "2", "3", "4", "sub/1", "sub/2", "sub/3", "sub/4"};

static void sweep_branch(const char *branch)
{
	char path[64];

	if (unlinkat(jail(), branch, 0) == 0)
		return; // the link
	for (size_t i = 0; i < sizeof(leaves) / sizeof(*leaves); i++) {
		snprintf(path, sizeof(path), "%s/%s", branch, leaves[i]);
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
	for (size_t i = 0; i < sizeof(leaves) / sizeof(*leaves); i++) {
		int fd;

		snprintf(path, sizeof(path), "new/d/%s", leaves[i]);
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
		CHECK(plant() && verb(REACH_REMOVE, "t", REACH_RECURSIVE));
		removes++;
		if (removes % 4 == 0) {
			CHECK(plant() && move("t", "/shm/moved") && verb(REACH_GREP, "/shm", 0));
			CHECK(verb(REACH_REMOVE, "/shm/moved", REACH_RECURSIVE));
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
