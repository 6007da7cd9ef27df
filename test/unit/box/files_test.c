// Files of a real box, through file workers of the real pid 1; and file workers that die or are
// many.
#include "box/files.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "box/exec.h"
#include "box/file_worker.h"
#include "box/private.h"
#include "loop/closer.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static struct files files;
static char dir[64];

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static const struct files *soon(void)
{
	files.deadline = in(30000); // a disk that others use, too, may stand still for seconds
	return &files;
}

static fallible sh(const char *script)
{
	static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	const char *argv[] = {script, NULL};
	struct exec_spec spec = {.shell = true,
				 .argv = argv,
				 .env = env,
				 .cwd = dir,
				 .user = "",
				 .output_cap = 1 << 20};
	struct exec_result result;
	struct exec *exec;
	struct err *err;

	TRY(exec_start(box, &spec, &exec));
	err = exec_wait(exec, in(20000), &result);
	exec_unref(exec);
	if (!err && result.exit_code != 0)
		err = err_new(INVALID, "script", "it ended with %d", result.exit_code);
	return err;
}

TEST(opens, "the fixture opens")
{
	CHECK(fixture_open());
}

BOX_TEST(builds, "a box is built")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	snprintf(dir, sizeof(dir), "/tmp/cove-files-%d", getpid());
	mkdir(dir, 0777);
	chmod(dir, 0777);
	files = (struct files){.box = box, .user = "", .base = dir};
}

BOX_TEST(small, "a small file is written and read by one file worker")
{
	auto_buf out = BUF_INIT(1 << 20);
	struct fileop_stat stat;
	bool there = true;
	int fd;

	CHECK_OK(files_exists(soon(), "note", &there));
	CHECK(!there);
	CHECK_OK(files_write(soon(), "note", 0, FILEOP_KEEP_MODE, STR("hello")));
	CHECK_OK(files_read(soon(), "note", &out, &fd, &stat));
	CHECK(fd == -1 && str_is(buf_view(&out), "hello") && stat.size == 5 && stat.uid == 0);
	CHECK_OK(files_exists(soon(), "note", &there));
	CHECK(there && box->worker_count == 1);
	CHECK_ERR(files_read(soon(), "none", &out, &fd, &stat), NOT_FOUND);
	CHECK_ERR(files_read(soon(), ".", &out, &fd, &stat), INVALID);
	CHECK_ERR(files_stat(soon(), "", true, &stat), INVALID);
	CHECK_OK(sh("[ \"$(cat note)\" = hello ]"));
	CHECK(box->worker_count == 1);
}

BOX_TEST(scores, "when memory runs out, a file worker is killed before pid 1")
{
	CHECK_OK(sh("[ $(cat /proc/$(pgrep -x cove-files)/oom_score_adj) = 500 ] && "
		    "[ $(cat /proc/1/oom_score_adj) -lt 500 ]"));
}

BOX_TEST(users, "a file worker has exactly the rights of its user")
{
	struct files nobody = *soon();
	auto_buf out = BUF_INIT(1 << 20);
	struct fileop_stat stat;
	int fd;

	nobody.user = "65534";
	CHECK_OK(sh("mkdir -m 755 safe; cd safe; echo secret > own; chmod 600 own; "
		    "mkdir -m 777 open; ln own open/hard"));
	CHECK_ERR(files_read(&nobody, "safe/own", &out, &fd, &stat), FORBIDDEN);
	CHECK_ERR(files_write(&nobody, "safe/new", 0, FILEOP_KEEP_MODE, STR("x")), FORBIDDEN);
	CHECK_ERR(files_write(&nobody, "safe/open/hard", 0, FILEOP_KEEP_MODE, STR("x")), FORBIDDEN);
	CHECK_OK(files_write(&nobody, "safe/open/mine", 0, FILEOP_KEEP_MODE, STR("x")));
	CHECK_OK(files_stat(&nobody, "safe/open/mine", false, &stat));
	CHECK(stat.uid == 65534 && stat.gid == 65534);
	nobody.user = "no-such-user";
	CHECK_ERR(files_stat(&nobody, "safe/own", true, &stat), INVALID);
	CHECK_OK(sh("[ \"$(cat safe/open/hard)\" = secret ]"));
}

BOX_TEST(uploads, "an upload replaces the file when it is committed")
{
	struct files_upload *upload = NULL;
	auto_buf out = BUF_INIT(1 << 20);
	struct fileop_stat stat;
	int fd = -1;

	CHECK_OK(files_begin(soon(), "up/load", FILEOP_PARENTS, 0600, &upload));
	CHECK(fd_write_all(files_upload_fd(upload), "streamed", 8) == 0);
	CHECK_OK(files_commit(upload, in(5000), &stat));
	CHECK(stat.size == 8 && stat.mode == 0600);
	CHECK_OK(files_begin(soon(), "up/load", 0, FILEOP_KEEP_MODE, &upload));
	CHECK(fd_write_all(files_upload_fd(upload), "x", 1) == 0);
	files_abort(upload);
	CHECK_OK(files_read(soon(), "up/load", &out, &fd, &stat));
	CHECK(str_is(buf_view(&out), "streamed") && stat.mode == 0600);
	CHECK_ERR(files_begin(soon(), "up", 0, FILEOP_KEEP_MODE, &upload), INVALID);
	CHECK_OK(sh("head -c 300000 /dev/zero > big"));
	CHECK_OK(files_read(soon(), "big", &out, &fd, &stat));
	CHECK(fd >= 0 && stat.size == 300000);
	close(fd);
	CHECK_ERR(files_open(soon(), "/proc/version", &fd, &stat), FORBIDDEN);
}

// Occupies the thread that closes: a connection whose close waits for its peer, inside of a socket,
// where SO_LINGER cannot be reset. *out_peer: the other end.
static void occupy_closer(int *out_peer)
{
	static const char bytes[65536];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linger minute = {.l_onoff = 1, .l_linger = 60};
	socklen_t len = sizeof(at);
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pair[2];
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(bind(door, (struct sockaddr *)&at, len) == 0 && listen(door, 1) == 0);
	CHECK(getsockname(door, (struct sockaddr *)&at, &len) == 0);
	CHECK(connect(sock, (struct sockaddr *)&at, len) == 0);
	*out_peer = accept4(door, NULL, NULL, SOCK_CLOEXEC);
	while (send(sock, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
	CHECK(setsockopt(sock, SOL_SOCKET, SO_LINGER, &minute, sizeof(minute)) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(fd_send(pair[0], "x", 1, &sock, 1, 0) == 1);
	close(sock);
	close(door);
	close(pair[0]);
	closer_drop(&pair[1]);
}

BOX_TEST(runs, "an uploaded program can be executed at once, a replaced one too")
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	int peer = -1;

	CHECK_OK(closer_open(fixture.loop));
	occupy_closer(&peer);
	CHECK_OK(files_begin(soon(), "run", 0, 0755, &upload));
	CHECK(fd_write_all(files_upload_fd(upload), "#!/bin/sh\n", 10) == 0);
	CHECK_OK(files_commit(upload, in(5000), &stat));
	CHECK_OK(sh("./run"));
	closer_close();
	close(peer);
	// A large old file is freed, and the new one synced, by a child of the file worker.
	CHECK_OK(sh("head -c 8000000 /dev/urandom > run"));
	for (int i = 0; i < 20; i++) {
		CHECK_OK(files_begin(soon(), "run", 0, 0755, &upload));
		CHECK(fd_write_all(files_upload_fd(upload), "#!/bin/sh\n", 10) == 0);
		CHECK(ftruncate(files_upload_fd(upload), 8000000) == 0);
		CHECK(fallocate(files_upload_fd(upload), 0, 0, 8000000) == 0);
		CHECK_OK(files_commit(upload, in(5000), &stat));
		CHECK_OK(sh("./run"));
	}
	CHECK_OK(sh("rm run"));
}

BOX_TEST(walks, "trees are listed, packed and unpacked")
{
	struct files_walk *walk = NULL, *other = NULL;
	struct files_total total;
	struct fileop_entry entry;
	int from = -1, to = -1, seen = 0;
	bool more = true;
	char room[4096];
	ssize_t n;

	CHECK_OK(sh("mkdir -p t/a/b; seq 3000 | while read i; do echo $i > t/a/b/$i; done"));
	CHECK_OK(files_list(soon(), "t", FILEOP_RECURSIVE, 0, &walk));
	for (;; seen++) {
		CHECK_OK(files_next_entry(walk, &entry, &more));
		if (!more)
			break;
	}
	CHECK_OK(files_end(walk, &total));
	CHECK(seen == 3002 && total.count == 3002 && !total.more);
	CHECK_OK(files_list(soon(), "t", FILEOP_RECURSIVE, 0, &walk));
	CHECK_OK(files_end(walk, NULL)); // early
	CHECK_ERR(files_list(soon(), "t/a/b/1", 0, 0, &walk), INVALID);
	CHECK_OK(files_pack(soon(), "t", &(struct files_pack){0}, &from, &walk));
	CHECK_OK(files_unpack(soon(), "copy", 0, &to, &other));
	while ((n = read(from, room, sizeof(room))) > 0)
		CHECK(fd_write_all(to, room, (size_t)n) == 0);
	close(from);
	close(to);
	CHECK_OK(files_end(walk, &total));
	CHECK(total.count == 3002);
	CHECK_OK(files_end(other, &total));
	CHECK(total.count == 3002 && total.skipped == 0);
	CHECK_OK(sh("diff -r t copy"));
	CHECK_OK(files_remove(soon(), "copy", true));
	CHECK_ERR(files_remove(soon(), "copy", true), NOT_FOUND);
	CHECK_ERR(files_remove(soon(), "t", false), INVALID);
}

BOX_TEST(watches, "a watch reports changes, survives a timeout, and ends when it is dropped")
{
	struct files_walk *walk = NULL;
	struct fileop_event event;

	CHECK_OK(files_watch(soon(), "t", FILEOP_RECURSIVE, NULL, NULL, &walk));
	CHECK_ERR(files_next_event(walk, in(20), &event), TIMEOUT);
	CHECK_OK(sh("echo x > t/a/event"));
	CHECK_OK(files_next_event(walk, in(5000), &event));
	CHECK(event.type == FILEOP_CREATE && str_is(event.path, "a/event"));
	CHECK_OK(files_next_event(walk, in(5000), &event));
	CHECK(event.type == FILEOP_MODIFY);
	files_drop(walk);
}

BOX_TEST(dies, "a killed file worker fails its own request only; a killed idle one is replaced")
{
	struct files_walk *walk = NULL;
	struct fileop_event event;
	struct fileop_stat stat;

	CHECK_OK(files_watch(soon(), "t", 0, NULL, NULL, &walk));
	CHECK_OK(sh("pkill -KILL cove-files"));
	CHECK_ERR(files_next_event(walk, in(5000), &event), INTERNAL);
	files_drop(walk);
	CHECK_OK(files_stat(soon(), "t", true, &stat));
	CHECK_OK(sh("pkill -KILL cove-files"));
	CHECK_OK(files_stat(soon(), "t", true, &stat));
	CHECK_OK(sh("pkill -STOP cove-files"));
	files.deadline = in(100);
	CHECK_ERR(files_stat(&files, "t", true, &stat), TIMEOUT);
	CHECK_OK(files_stat(soon(), "t", true, &stat));
}

static int running, failures;

static void many_task(void *arg)
{
	(void)arg;
	for (int i = 0; i < 50; i++) {
		struct fileop_stat stat;
		auto_err err = files_stat(&files, "note", true, &stat);

		failures += err != NULL;
	}
	running--;
}

BOX_TEST(many, "64 callers share a few file workers")
{
	soon();
	running = 64;
	for (int i = 0; i < 64; i++)
		task_start(fixture.loop, "many", many_task, NULL);
	while (running > 0)
		CHECK_OK(task_sleep_until(in(2)));
	printf("# %u file workers\n", box->worker_count);
	CHECK(failures == 0 && box->worker_count <= 8);
}

BOX_TEST(bound, "long requests never take all file workers")
{
	struct files_walk *walks[BOX_WORKERS_ENDLESS];
	struct fileop_stat stat;
	struct files_walk *one_more = NULL;

	for (int i = 0; i < BOX_WORKERS_ENDLESS; i++)
		CHECK_OK(files_watch(soon(), "t", 0, NULL, NULL, &walks[i]));
	CHECK_ERR(files_watch(soon(), "t", 0, NULL, NULL, &one_more), EXHAUSTED);
	CHECK_OK(files_stat(soon(), "note", true, &stat));
	for (int i = 0; i < BOX_WORKERS_ENDLESS; i++)
		files_drop(walks[i]);
}

static void list_task(void *arg)
{
	struct files_walk *walk = NULL;
	struct files_total total = {0};
	struct fileop_entry entry;
	auto_err err = files_list(&files, "t/a/b", 0, 0, &walk);

	(void)arg;
	for (bool more = true; !err && more;)
		err = files_next_entry(walk, &entry, &more);
	if (err)
		files_drop(walk);
	else
		err = files_end(walk, &total);
	failures += err != NULL || total.count != 3000;
	running--;
}

BOX_TEST(lists, "64 callers that list at once wait for each other, and all are served")
{
	soon();
	failures = 0;
	running = 64;
	for (int i = 0; i < 64; i++)
		task_start(fixture.loop, "list", list_task, NULL);
	while (running > 0)
		CHECK_OK(task_sleep_until(in(2)));
	CHECK(failures == 0 && box->worker_count <= BOX_WORKERS_MAX);
}

BOX_TEST(fast, "a small read is one message each way")
{
	auto_buf out = BUF_INIT(1 << 20);
	static char kib[1024];
	struct fileop_stat stat;
	int64_t begun = clock_us();
	int fd;

	memset(kib, 'k', sizeof(kib));
	files.base = "/dev/shm"; // a disk has a pace of its own
	for (int i = 0; i < 2000; i++) {
		CHECK_OK(files_write(soon(), "cove-kib", 0, FILEOP_KEEP_MODE,
				     (struct str){kib, sizeof(kib)}));
	}
	printf("# %.1f us a write of 1 KiB\n", (double)(clock_us() - begun) / 2000);
	begun = clock_us();
	for (int i = 0; i < 5000; i++) {
		buf_clear(&out);
		CHECK_OK(files_read(soon(), "cove-kib", &out, &fd, &stat));
	}
	printf("# %.1f us a read of 1 KiB\n", (double)(clock_us() - begun) / 5000);
	CHECK(out.len == 1024);
	CHECK_OK(files_remove(soon(), "cove-kib", false));
	files.base = dir;
}

BOX_TEST(ports, "a port in the box is listed and dialled")
{
	struct fileop_port seen[64];
	size_t count = 0;
	int fd = -1;

	CHECK_OK(files_ports(soon(), seen, 64, &count));
	CHECK_ERR(files_dial(soon(), 1, &fd), BAD_PEER);
	CHECK(fd == -1);
}

BOX_TEST(ends, "a box that ends ends its file workers")
{
	struct files_walk *walk = NULL;
	struct fileop_event event;
	struct fileop_stat stat;

	CHECK_OK(sh("rm -rf \"$PWD\"/*"));
	CHECK_OK(files_watch(soon(), ".", 0, NULL, NULL, &walk));
	CHECK_OK(box_destroy(box, in(10000)));
	CHECK_ERR(files_next_event(walk, in(1000), &event), UNAVAILABLE);
	files_drop(walk);
	CHECK_ERR(files_stat(soon(), "t", true, &stat), UNAVAILABLE);
	box_free(box);
}

TEST(closes, "the fixture closes")
{
	rmdir(dir);
	fixture_close();
}
