// The passwd file of a box is hostile. Each one is bound over /etc/passwd in a mount namespace of
// the test's own.
#include "init/user.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd.h"
#include "tap.h"

static char path[64];
static struct user got;

static bool cannot(void)
{
	static int state; // 1: ready, 2: not to be had

	if (state == 0) {
		state = unshare(CLONE_NEWNS) == 0 &&
					mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
				? 1
				: 2;
		snprintf(path, sizeof(path), "/tmp/cove-passwd-%d", getpid());
	}
	if (state == 2) {
		printf("# skip: needs root\n");
		tap_bad |= getenv("COVE_TEST_MUST") != NULL;
	}
	return state == 2;
}

// Binds a file with this text over `at`.
static bool put_at(const char *at, const char *text, size_t len)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_all(fd, text, len) < 0)
		return false;
	close(fd);
	return mount(path, at, NULL, MS_BIND, NULL) == 0 && unlink(path) == 0;
}

static bool put(const char *text, size_t len)
{
	return put_at("/etc/passwd", text, len);
}

static void restore(void)
{
	umount2("/etc/passwd", MNT_DETACH);
	unlink(path);
}

static bool find(const char *word)
{
	return user_find(str_of(word), true, &got);
}

TEST(finds, "users are found by name and by number, with group and home")
{
	static const char text[] = "root:x:0:0:root:/root:/bin/sh\n"
				   "agent:x:1000:1001::/home/agent:/bin/sh\n"
				   "homeless:x:7:7:::\n";

	if (cannot())
		return;
	CHECK(put(text, sizeof(text) - 1));
	CHECK(find("") && got.uid == 0 && got.gid == 0);
	CHECK_STR(got.home, "/root");
	CHECK(find("agent") && got.uid == 1000 && got.gid == 1001);
	CHECK_STR(got.home, "/home/agent");
	CHECK_STR(got.name, "agent");
	CHECK(find("1000") && got.gid == 1001);
	CHECK_STR(got.name, "agent");
	CHECK(find("1000:5") && got.uid == 1000 && got.gid == 5);
	CHECK(find("agent:5") && got.uid == 1000 && got.gid == 5);
	CHECK_STR(got.home, "/home/agent");
	CHECK(find("1234") && got.uid == 1234 && got.gid == 1234); // not in the file
	CHECK_STR(got.home, "/");
	CHECK(find("homeless"));
	CHECK_STR(got.home, "/");
	restore();
}

TEST(groups, "a user has the groups that name it, within bounds; root, or with a group, one")
{
	enum { SIZE = 8192 };
	static const char users[] = "root:x:0:0:root:/root:/bin/sh\n"
				    "agent:x:1000:1001::/home/agent:/bin/sh\n"
				    "many:x:7:7:::\n";
	static char text[SIZE];
	size_t len = 0;

	if (cannot())
		return;
	len += (size_t)snprintf(text, SIZE,
				"agent:x:1001:agent\nstaff:x:50:x,agent,root\n"
				"other:x:51:agents,agen\nodd:x:99999999:agent\n"
				"short:x:52\ndocker:x:0:root,agent\n");
	while (len < SIZE - 64)
		len += (size_t)snprintf(text + len, SIZE - len, "g%zu:x:%zu:many\n", len, len);
	CHECK(put(users, sizeof(users) - 1) && put_at("/etc/group", text, len));
	CHECK(find("agent") && got.group_count == 3);
	CHECK(got.groups[0] == 1001 && got.groups[1] == 50 && got.groups[2] == 0);
	CHECK(find("1000") && got.group_count == 3 && got.groups[1] == 50);
	CHECK(find("agent:staff") && got.group_count == 1 && got.groups[0] == 50);
	CHECK(find("root") && got.group_count == 1 && got.groups[0] == 0);
	CHECK(find("1234") && got.group_count == 1 && got.groups[0] == 1234);
	CHECK(find("many") && got.group_count == USER_GROUPS_MAX);
	umount2("/etc/group", MNT_DETACH);
	restore();
}

TEST(refuses, "names that are no user are refused")
{
	static const char *const words[] = {"nobody-here",
					    "65536",
					    "4294967295",
					    "-1",
					    "0x0",
					    "0:65536",
					    "0:",
					    ":0",
					    "agent:",
					    "root:0",
					    "agent:no-such-group",
					    "0:no-such-group",
					    "18446744073709551616",
					    " 0",
					    "0 ",
					    NULL};

	if (cannot())
		return;
	CHECK(put("agent:x:1000:1000::/:/\n", 23));
	for (int i = 0; words[i]; i++) {
		printf("# '%s'\n", words[i]);
		CHECK(!find(words[i]));
	}
	restore();
}

TEST(hostile, "lines with ids out of range, cut lines and NULs name nobody")
{
	static const char text[] = "big:x:65536:0::/:/\nneg:x:-1:0::/:/\nbiggid:x:1:99999999::/:/\n"
				   "short:x:1\n:::::::\nnul:x:1:1::/a\0b:/\nlast:x:3:3::/x:";

	if (cannot())
		return;
	CHECK(put(text, sizeof(text) - 1));
	CHECK(!find("big") && !find("neg") && !find("biggid") && !find("short"));
	CHECK(find("nul"));
	CHECK_STR(got.home, "/");
	CHECK(find("last") && got.uid == 3);
	restore();
}

TEST(bounded, "what is behind 64 KiB or 1000 lines is not read")
{
	enum { SIZE = 200000 };
	static char text[SIZE];
	size_t len = 0;

	if (cannot())
		return;
	while (len < SIZE - 64)
		len += (size_t)snprintf(text + len, SIZE - len, "u%zu:x:5:5::/:/\n", len);
	len += (size_t)snprintf(text + len, SIZE - len, "late:x:6:6::/:/\n");
	CHECK(put(text, len));
	CHECK(find("u0") && !find("late"));
	restore();
	memset(text, '\n', 2000);
	memcpy(text + 2000, "late:x:6:6::/:/\n", 16);
	CHECK(put(text, 2016));
	CHECK(!find("late"));
	restore();
}

TEST(no_wait, "a fifo in its place does not block")
{
	if (cannot())
		return;
	CHECK(mkfifo(path, 0644) == 0);
	CHECK(mount(path, "/etc/passwd", NULL, MS_BIND, NULL) == 0);
	CHECK(!find("root") && find("0"));
	CHECK_STR(got.name, "root");
	restore();
}
