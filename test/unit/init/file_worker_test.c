// Requests to a file worker about files and trees, one by one.
#include <errno.h>

#include "unit/init/grip.h"

TEST(opens, "a file worker starts")
{
	grip_open();
	CHECK(grip.pid > 0);
}

TEST(writes, "a written file is read back, in one message each way")
{
	CHECK(grip_write("note", 0, "hello") == 0);
	CHECK(grip_send.kind == FILEOP_DONE && grip_send.stat.size == 5 &&
	      grip_send.stat.mode == 0644);
	CHECK(grip_reads("note", "hello"));
	CHECK(grip_send.stat.type == FILEOP_REGULAR && grip_send.stat.size == 5);
	CHECK(grip_write("note", 0, "") == 0 && grip_reads("note", ""));
	CHECK(grip_sh("[ \"$(ls -A)\" = note ]"));
}

TEST(keeps, "a file that is replaced keeps its mode, and a link is followed")
{
	CHECK(grip_sh("chmod 750 note; ln -s note link; mkdir d; ln -s d/new far; ln -s d dd"));
	CHECK(grip_write("link", 0, "two") == 0);
	CHECK(grip_reads("note", "two") && grip_send.stat.mode == 0750);
	CHECK(grip_sh("[ -L link ]"));
	CHECK(grip_write("far", 0, "three") == 0 && grip_reads("d/new", "three"));
	CHECK(grip_write("dd/more", 0, "four") == 0 && grip_reads("d/more", "four"));
	CHECK(grip_sh("[ -L far ] && [ -L dd ]"));
}

TEST(refuses, "a file that cannot be written is refused, and nothing is left behind")
{
	CHECK(grip_write("d", 0, "x") == EISDIR);
	CHECK(grip_write("no/where", 0, "x") == ENOENT);
	CHECK(grip_write("note/under", 0, "x") == ENOTDIR);
	CHECK(grip_write("/", 0, "x") == EISDIR && grip_write("d/..", 0, "x") == EISDIR);
	CHECK(grip_write("", 0, "x") == ENOENT);
	CHECK(grip_write("note", FILEOP_EXCLUSIVE, "x") == EEXIST);
	CHECK(grip_sh("ln -s loop loop; mkfifo pipe"));
	CHECK(grip_write("loop", 0, "x") == ELOOP);
	CHECK(grip_write("pipe", 0, "x") == -1 && grip_send.why == FILEOP_NOT_REGULAR);
	CHECK(grip_write("deep/er/file", FILEOP_PARENTS, "x") == 0);
	CHECK(grip_reads("deep/er/file", "x"));
	CHECK(grip_write("/dev/null", 0, "x") == -1);
	CHECK(grip_sh("[ -z \"$(find . -name '.cove*')\" ]"));
}

TEST(odd, "a fifo, a socket, a device and a directory are refused at once")
{
	CHECK(grip_on(FILEOP_READ, "pipe", 0) == -1 && grip_send.why == FILEOP_NOT_REGULAR);
	CHECK(grip_on(FILEOP_READ, "/dev/null", 0) == -1 && grip_send.why == FILEOP_NOT_REGULAR);
	CHECK(grip_on(FILEOP_READ, "d", 0) == EISDIR);
	CHECK(grip_on(FILEOP_READ, "nothing", 0) == ENOENT);
	CHECK(grip_on(FILEOP_READ, "/proc/self/root/etc/passwd", 0) == ELOOP);
	CHECK(grip_on(FILEOP_READ, "/proc/version", 0) == -1 && grip_send.why == FILEOP_REFUSED);
	CHECK(grip_on(FILEOP_READ, "/proc/version", FILEOP_PROC) == 0);
}

TEST(big, "a file too big for one message comes as an fd at its beginning")
{
	char byte;

	CHECK(grip_sh("head -c 131072 /dev/zero > small; head -c 131073 /dev/zero > big"));
	CHECK(grip_on(FILEOP_READ, "small", 0) == 0 && grip_send.kind == FILEOP_BYTES);
	CHECK(grip_send.rest.len == FILEOP_SMALL);
	CHECK(grip_on(FILEOP_READ, "big", 0) == 0 && grip_send.kind == FILEOP_OPENED);
	CHECK(grip_send.stat.size == 131073 && read(grip_fd, &byte, 1) == 1 && byte == 0);
	CHECK(grip_get() && grip_send.kind == FILEOP_DONE);
	CHECK(grip_on(FILEOP_READ, "note", FILEOP_AS_FD) == 0 && grip_send.kind == FILEOP_OPENED);
	CHECK(grip_get());
}

TEST(stats, "a stat follows, or not")
{
	CHECK(grip_on(FILEOP_STAT, "link", 0) == 0 && grip_send.stat.type == FILEOP_SYMLINK);
	CHECK(str_is(grip_send.text, "note"));
	CHECK(grip_on(FILEOP_STAT, "link", FILEOP_FOLLOW) == 0);
	CHECK(grip_send.stat.type == FILEOP_REGULAR && grip_send.stat.size == 3);
	CHECK(grip_on(FILEOP_STAT, "pipe", 0) == 0 && grip_send.stat.type == FILEOP_OTHER);
	CHECK(grip_on(FILEOP_STAT, "loop", FILEOP_FOLLOW) == ELOOP);
	CHECK(grip_on(FILEOP_READLINK, "far", 0) == 0 && str_is(grip_send.text, "d/new"));
	CHECK(grip_on(FILEOP_READLINK, "note", 0) == EINVAL);
	CHECK(grip_on(FILEOP_SPACE, ".", 0) == 0 && grip_send.space > grip_send.space_free);
}

TEST(uploads, "an upload takes its name at the end, or leaves the old file as it was")
{
	CHECK(grip_on(FILEOP_BEGIN, "note", 0) == 0 && grip_send.kind == FILEOP_OPENED);
	CHECK(fd_write_all(grip_fd, "streamed", 8) == 0);
	CHECK(grip_get() && grip_send.kind == FILEOP_DONE);
	CHECK(grip_on(FILEOP_WRITE, "note", 0) == -1 && grip_send.why == FILEOP_OUT_OF_TURN);
	CHECK(grip_reads("note", "two"));
	CHECK(grip_on(FILEOP_COMMIT, "", 0) == 0 && grip_send.stat.size == 8);
	CHECK(grip_reads("note", "streamed") && grip_send.stat.mode == 0750);
	CHECK(grip_on(FILEOP_COMMIT, "", 0) == -1 && grip_send.why == FILEOP_OUT_OF_TURN);
	CHECK(grip_on(FILEOP_BEGIN, "note", 0) == 0 && fd_write_all(grip_fd, "x", 1) == 0);
	CHECK(grip_get() && grip_on(FILEOP_ABORT, "", 0) == 0 && grip_reads("note", "streamed"));
	CHECK(grip_on(FILEOP_BEGIN, "fresh/one", FILEOP_PARENTS) == 0);
	CHECK(grip_get() && grip_on(FILEOP_COMMIT, "", 0) == 0 && grip_reads("fresh/one", ""));
}

TEST(vanishes, "a client that vanishes leaves the old file whole and nothing else")
{
	CHECK(grip_on(FILEOP_BEGIN, "note", 0) == 0 && fd_write_all(grip_fd, "half", 4) == 0);
	CHECK(grip_get());
	CHECK(grip_let_go());
	grip_hold();
	CHECK(grip_reads("note", "streamed"));
	CHECK(grip_sh("[ -z \"$(find . -name '.cove*')\" ]"));
}

TEST(dirs, "directories are made, with parents when asked for")
{
	CHECK(grip_on(FILEOP_MKDIR, "m/n", 0) == ENOENT);
	CHECK(grip_on(FILEOP_MKDIR, "m/n/", FILEOP_PARENTS) == 0);
	CHECK(grip_on(FILEOP_MKDIR, "m/n", FILEOP_PARENTS) == 0);
	CHECK(grip_on(FILEOP_MKDIR, "m/n", 0) == EEXIST);
	CHECK(grip_on(FILEOP_MKDIR, "note", FILEOP_PARENTS) == EEXIST);
	CHECK(grip_on(FILEOP_MKDIR, "/", FILEOP_PARENTS) == 0 && grip_on(FILEOP_MKDIR, ".", 0));
	CHECK(grip_sh("[ -d m/n ]"));
}

TEST(removes, "a file is removed, a directory only with all in it, a link alone")
{
	CHECK(grip_sh("mkdir -p t/a/b; echo x > t/a/b/f; ln -s ../../d t/a/out; ln -s a t/in"));
	CHECK(grip_on(FILEOP_REMOVE, "t", 0) == EISDIR);
	CHECK(grip_on(FILEOP_REMOVE, "t/in", 0) == 0 && grip_sh("[ -d t/a ] && [ ! -e t/in ]"));
	CHECK(grip_on(FILEOP_REMOVE, "t", FILEOP_RECURSIVE) == 0 && grip_send.count == 5);
	CHECK(grip_sh("[ ! -e t ] && [ -f d/new ]"));
	CHECK(grip_on(FILEOP_REMOVE, "t", 0) == ENOENT);
	CHECK(grip_on(FILEOP_REMOVE, "d/.", FILEOP_RECURSIVE) == EBUSY);
	CHECK(grip_on(FILEOP_REMOVE, "/", FILEOP_RECURSIVE) == EBUSY);
	CHECK(grip_on(FILEOP_REMOVE, "m/n", FILEOP_EMPTY) == 0);
}

static int move(const char *from, const char *to, uint32_t flags)
{
	struct fileop_request ask = grip_ask(FILEOP_MOVE, from);

	ask.other = str_of(to);
	ask.flags = flags;
	return grip_do(&ask);
}

TEST(moves, "mv: to a name, over a file, into a directory, across file systems")
{
	CHECK(grip_sh("mkdir -p s/x; echo 1 > s/one; echo 2 > s/two; chmod 640 s/one"));
	CHECK(move("s/one", "s/three", 0) == 0 && grip_reads("s/three", "1\n"));
	CHECK(move("s/three", "s/two", FILEOP_EXCLUSIVE) == EEXIST);
	CHECK(move("s/three", "s/two", 0) == 0 && grip_reads("s/two", "1\n"));
	CHECK(move("s/two", "s/x", 0) == 0 && grip_reads("s/x/two", "1\n"));
	CHECK(move("s/gone", "s/x", 0) == ENOENT && move("s/x/two", "no/where", 0) == ENOENT);
	CHECK(move("s", "s/x/deeper", 0) == EINVAL);
	CHECK(move("s/x/two", "s/x/two/three", 0) == ENOTDIR);
	CHECK(grip_sh("rm -rf /dev/shm/cove-grip-s; ln -s two s/x/link; mkdir s/x/e"));
	CHECK(move("s", "/dev/shm/cove-grip-s", 0) == 0);
	CHECK(grip_sh("[ ! -e s ] && cd /dev/shm/cove-grip-s && [ \"$(cat x/two)\" = 1 ] && "
		      "[ \"$(readlink x/link)\" = two ] && [ \"$(stat -c %a x/two)\" = 640 ]"));
	CHECK(move("/dev/shm/cove-grip-s", "s", 0) == 0 && grip_reads("s/x/two", "1\n"));
	CHECK(grip_sh("[ -z \"$(find . /dev/shm -name '.cove*')\" ]"));
}

TEST(modes, "modes are set, of one or of all beneath")
{
	struct fileop_request ask = grip_ask(FILEOP_CHMOD, "s");

	ask.mode = 0700;
	ask.flags = FILEOP_RECURSIVE;
	CHECK(grip_do(&ask) == 0);
	CHECK(grip_on(FILEOP_STAT, "s/x/two", 0) == 0 && grip_send.stat.mode == 0700);
	ask = grip_ask(FILEOP_CHMOD, "s/x/two");
	ask.mode = 04755;
	CHECK(grip_do(&ask) == 0);
	CHECK(grip_on(FILEOP_STAT, "s/x/two", 0) == 0 && grip_send.stat.mode == 04755);
}

TEST(names, "names are bytes: newlines, quotes, dashes, 255 of them, no UTF-8")
{
	static char longest[256];
	const char *names[] = {"a\nb", "a;touch pwn", "-rf", "\xff\xfe", "$(x)", "'\"", longest};

	memset(longest, 'n', 255);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK(grip_write(names[i], 0, "odd") == 0);
		CHECK(grip_reads(names[i], "odd"));
		CHECK(grip_on(FILEOP_REMOVE, names[i], 0) == 0);
	}
	longest[254] = 'x';
	CHECK(grip_write(longest, 0, "odd") == 0 && grip_on(FILEOP_REMOVE, longest, 0) == 0);
	CHECK(grip_sh("[ ! -e pwn ]"));
}

TEST(nonsense, "a malformed request ends the file worker")
{
	char byte;

	CHECK(fd_send(grip.sock, "\xff", 1, NULL, 0, 0) == 1);
	CHECK(recv(grip.sock, &byte, 1, 0) == 0);
	CHECK(grip_let_go());
	grip_hold();
}

TEST(closes, "a file worker ends with its socket")
{
	CHECK(grip_let_go());
	grip_close();
}
