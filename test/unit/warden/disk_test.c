#include "warden/disk.h"

#include <dirent.h>
#include <grp.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/clock.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/set_ids.h"
#include "scratch.h"
#include "tap.h"

#define BASE (1u << 20)
#define BOX "box-000000000000000000000000000000000000000000000001"
#define ZEROS "000000000000000000000000000000000000000000000000"
#define MIB (1ull << 20)

static int userns = -1;

static bool ready(void)
{
	auto_err err = userns < 0 ? ns_user(BASE, &userns) : OK;

	mkdirat(scratch, "m", 0755);
	mkdirat(scratch, "o", 0755);
	mkdirat(scratch, "low", 0755);
	return !err;
}

// A state directory of its own for each test.
static int data_dir(const char *name)
{
	int fd = -1;

	err_free(path_dir(scratch, name, 0711, &fd));
	return fd;
}

// The pool of a test is large: it goes as soon as the test is done.
static void done_with(struct disk *disk, const char *name)
{
	disk_close(disk);
	err_free(path_remove(scratch, name));
}

// Runs a shell command as root of the box, in the directory `m` of the scratch.
static int in_box(const char *command)
{
	int status, pid = fork();

	if (pid == 0) {
		if (fchdir(scratch) || setns(userns, CLONE_NEWUSER) || setgroups(0, NULL) ||
		    setresgid(0, 0, 0) || setresuid(0, 0, 0))
			_exit(125);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The tree at m, and an overlay on it at o, as the builder makes it.
static bool put_up(int *tree, bool overlay)
{
	char options[256];
	int r = 0;

	if (mount_attach(*tree, scratch, "m"))
		return false;
	close(take_fd(tree)); // it would keep the mount busy
	if (overlay) {
		snprintf(options, sizeof(options),
			 "lowerdir=low,upperdir=m/r/u,workdir=m/r/w,volatile");
		if (fchdir(scratch) || set_ids_files(BASE))
			return false;
		r = mount("overlay", "o", "overlay", MS_NOSUID | MS_NODEV, options);
		if (set_ids_files(0) || chdir("/"))
			return false;
	}
	return r == 0;
}

static void take_down(bool overlay)
{
	scratch_run(overlay ? "umount o; umount m" : "umount m");
}

static void pause_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

static void reap_all(struct disk *disk)
{
	// The process that syncs stays.
	for (int pid; disk_trash(disk) && (pid = waitpid(-1, NULL, 0)) > 0;)
		disk_reaped(disk, pid);
}

static void check_ids(struct disk *disk)
{
	struct limits limits = {.disk = disk_limits_bytes(disk) ? 64 * MIB : 0};
	auto_fd tree = -1;

	CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
	CHECK(put_up(&tree, false));
	CHECK(scratch_run("grep -q ' '$PWD/m'.* rw,nosuid,nodev,noatime.*idmapped' "
			  "/proc/self/mountinfo") == 0);
	CHECK(scratch_run(
		      "test \"$(stat -c '%u:%g %a' m/r/u m/r/w m/usr/u m/usr/w m | sort -u)\" = "
		      "'1048576:1048576 755'") == 0);
	CHECK(in_box("echo hi > m/r/u/f && chown 1000:7 m/r/u/f && test $(stat -c %u m/r/u) = 0") ==
	      0);
	CHECK(scratch_run("test $(stat -c %u:%g m/r/u/f) = 1049576:1048583") == 0);
	take_down(false);
	CHECK_OK(disk_drop(disk, BOX));
	CHECK_OK(disk_drop(disk, BOX));
	reap_all(disk);
	CHECK(disk_trash(disk) == 0);
}

static void time_it(struct disk *disk, int n)
{
	struct limits limits = LIMITS_DEFAULT;
	int64_t made = 0, dropped = 0, began;
	char box[64];

	limits.disk = disk_limits_bytes(disk) ? limits.disk : 0;
	disk_idle(disk);
	for (int i = 0; i < n; i++) {
		auto_fd tree = -1;

		snprintf(box, sizeof(box), "box-%048d", i);
		began = clock_us();
		CHECK_OK(disk_make(disk, box, &limits, false, userns, &tree));
		made += clock_us() - began;
		close(take_fd(&tree));
		began = clock_us();
		CHECK_OK(disk_drop(disk, box));
		dropped += clock_us() - began;
	}
	printf("# %s: make %lld us, drop %lld us\n", disk_word(disk), (long long)made / n,
	       (long long)dropped / n);
	reap_all(disk);
}

static void check_driver(const char *word, int n)
{
	auto_fd data = data_dir(word);
	struct disk *disk = NULL;
	auto_err err = disk_open(data, word, NULL, &disk);

	if (err && err_kind(err) == ERR_NOT_OFFERED) {
		printf("# SKIP %s: %s\n", word, err_message(err));
		CHECK(!getenv("COVE_TEST_MUST"));
		return;
	}
	CHECK(!err);
	CHECK_STR(disk_word(disk), word);
	CHECK(ready());
	check_ids(disk);
	time_it(disk, n);
	done_with(disk, word);
}

TEST(ids_btrfs, "btrfs: a box's root owns its disk, which stores ids unshifted")
{
	check_driver("btrfs", 200);
}

TEST(ids_image, "ext4-image: a box's root owns its disk, which stores ids unshifted")
{
	check_driver("ext4-image", 20);
}

TEST(ids_dir, "directory: a box's root owns its disk, which stores ids unshifted")
{
	check_driver("directory", 100);
}

// Fills the box to its limit and frees space again, as a tenant would.
static void check_full(struct disk *disk, bool overlay, uint64_t inodes)
{
	struct limits limits = {.disk = 64 * MIB, .inodes = inodes};
	const char *dir = overlay ? "o" : "m/r/u";
	auto_fd tree = -1;
	char command[512];

	CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
	CHECK(put_up(&tree, overlay));
	snprintf(command, sizeof(command),
		 "cd %s && said=$(dd if=/dev/urandom of=big bs=1M 2>&1); "
		 "case $said in *'quota exceeded'*|*'No space'*) ;; *) exit 1;; esac; "
		 "test $(stat -c %%s big) -le 67108864 && test $(stat -c %%s big) -gt 58000000",
		 dir);
	CHECK(in_box(command) == 0);
	pause_ms(60);
	disk_idle(disk);
	snprintf(command, sizeof(command),
		 "cd %s && truncate -s 1M big && : > big && rm big && "
		 "dd if=/dev/zero of=again bs=1M count=50 2>/dev/null && rm again",
		 dir);
	CHECK(in_box(command) == 0);
	// Again, to the limit by small files, and with links and names.
	snprintf(command, sizeof(command),
		 "cd %s && mkdir s && i=0; while echo 0123456789 > s/f$i; do i=$((i+1)); "
		 "test $i -lt 3000 || break; done 2>/dev/null; "
		 "dd if=/dev/zero of=big bs=4k 2>/dev/null; test -s big",
		 dir);
	CHECK(in_box(command) == 0);
	pause_ms(60);
	disk_idle(disk);
	snprintf(command, sizeof(command), "cd %s && : > s/f1 && rm -r s && rm big", dir);
	CHECK(in_box(command) == 0);
	take_down(overlay);
	CHECK_OK(disk_drop(disk, BOX));
}

TEST(full, "a full disk stops at its limit; truncate and delete bring the space back")
{
	auto_fd data = data_dir("full");
	struct disk *disk = NULL;

	CHECK(ready());
	CHECK_OK(disk_open(data, NULL, NULL, &disk));
	if (disk_limits_bytes(disk)) {
		check_full(disk, false, 0);
		check_full(disk, true, 0);
	} else {
		printf("# SKIP no driver here keeps a limit\n");
	}
	if (disk_limits_inodes(disk))
		check_full(disk, true, 8000);
	reap_all(disk);
	done_with(disk, "full");
}

// Calls idle as the warden does, for so long.
static void idle_for(struct disk *disk, int ms)
{
	int64_t end = clock_ms() + ms, worst = 0;

	while (clock_ms() < end) {
		int64_t began = clock_us();
		int wait = disk_idle(disk);

		worst = clock_us() - began > worst ? clock_us() - began : worst;
		pause_ms(wait < 0 || wait > end - clock_ms() ? 10 : wait);
	}
	printf("# the longest idle took %lld us\n", (long long)worst);
}

static uint64_t pool_bytes(const char *name)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/pool.img", name);
	return fstatat(scratch, path, &st, 0) ? 0 : (uint64_t)st.st_size;
}

TEST(ahead, "the pool starts small, grows ahead of fast writers, and gives back what they freed")
{
	static const char *const at[] = {"m0", "m1", "m2"};
	auto_fd data = data_dir("ahead");
	struct limits limits = LIMITS_DEFAULT;
	struct disk *disk = NULL;
	auto_err err = disk_open(data, "btrfs", NULL, &disk);
	char box[64];
	int tries;

	if (err) {
		printf("# SKIP no pool here: %s\n", err_message(err));
		return;
	}
	CHECK(ready());
	CHECK(pool_bytes("ahead") == POOL_START);
	for (int i = 0; i < 3; i++) {
		auto_fd tree = -1;

		snprintf(box, sizeof(box), "box-%048d", i);
		CHECK_OK(disk_make(disk, box, &limits, false, userns, &tree));
		mkdirat(scratch, at[i], 0755);
		CHECK(mount_attach(tree, scratch, at[i]) == 0);
	}
	idle_for(disk, 200);
	CHECK(pool_bytes("ahead") <= 2 * POOL_START);
	CHECK(in_box("head -c 600M /dev/zero > m0/r/u/f & "
		     "head -c 600M /dev/zero > m1/r/u/f && wait $!") == 0);
	CHECK(pool_bytes("ahead") > 1200 * MIB);
	CHECK(in_box("rm m0/r/u/f m1/r/u/f; sync -f m0") == 0);
	for (tries = 0; tries < 600 && pool_bytes("ahead") > POOL_START; tries++)
		idle_for(disk, 100);
	CHECK(pool_bytes("ahead") == POOL_START);
	// More at once than there is: refused, and soon after met.
	for (tries = 0; tries < 50 && in_box("fallocate -l 1500M m2/r/u/h 2>/dev/null"); tries++)
		idle_for(disk, 100);
	CHECK(tries < 50);
	CHECK(scratch_run("umount m0 m1 m2") == 0);
	done_with(disk, "ahead");
}

TEST(stands, "one subvolume is kept ready, with its quota, and the next warden removes it")
{
	auto_fd data = data_dir("stands");
	struct limits limits = {.disk = 64 * MIB};
	struct disk *disk = NULL;
	auto_err err = disk_open(data, "btrfs", NULL, &disk);
	auto_fd tree = -1;

	if (err) {
		printf("# SKIP no pool here: %s\n", err_message(err));
		return;
	}
	CHECK(ready());
	CHECK_OK(disk_make(disk, "box-" ZEROS, &limits, false, userns, &tree));
	fd_drop(&tree);
	CHECK(scratch_run("! test -e stands/pool/ready") == 0);
	idle_for(disk, 200); // looks at what all use, too
	CHECK(scratch_run("test -d stands/pool/ready/usr/w") == 0);
	CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
	CHECK(scratch_run("! test -e stands/pool/ready") == 0);
	CHECK(put_up(&tree, false));
	CHECK(in_box("! dd if=/dev/zero of=m/r/u/f bs=1M count=80 2>/dev/null && "
		     "test $(stat -c %s m/r/u/f) -gt 50000000") == 0);
	take_down(false);
	idle_for(disk, 100);
	disk_close(disk);
	CHECK_OK(disk_open(data, "btrfs", NULL, &disk));
	CHECK(scratch_run("! test -e stands/pool/ready") == 0);
	done_with(disk, "stands");
}

TEST(large, "limits beyond the host, and inodes that would take long to make, are refused")
{
	auto_fd data = data_dir("large");
	struct limits limits = {.disk = 15ull << 40};
	struct disk *disk = NULL;
	int64_t began = clock_ms();
	auto_fd tree = -1;

	CHECK(ready());
	CHECK_OK(disk_open(data, "ext4-image", NULL, &disk));
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	limits = (struct limits){.disk = 17ull << 40};
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	limits = (struct limits){.disk = 40ull << 30, .inodes = 64};
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	for (uint64_t i = 0; i < 6; i++) {
		limits = (struct limits){.disk = 64 * MIB, .inodes = 500 + i};
		CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
		close(take_fd(&tree));
		CHECK_OK(disk_drop(disk, BOX));
	}
	CHECK(clock_ms() - began < 10000);
	CHECK(scratch_run("test $(ls -A large/boxes | grep -c template) = 4 && "
			  "test -e large/boxes/.template-67108864-505") == 0);
	reap_all(disk);
	done_with(disk, "large");
}

TEST(inodes, "a limit on inodes is exact, and selects the image")
{
	auto_fd data = data_dir("inodes");
	struct limits limits = {.disk = 64 * MIB, .inodes = 1000};
	struct disk *disk = NULL;
	auto_fd tree = -1;

	CHECK(ready());
	CHECK_OK(disk_open(data, NULL, NULL, &disk));
	if (!disk_limits_inodes(disk)) {
		printf("# SKIP no images here\n");
		disk_close(disk);
		return;
	}
	CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
	CHECK(put_up(&tree, false));
	CHECK(in_box("cd m/r/u && i=0; while true > f$i; do i=$((i+1)); done 2>/dev/null; "
		     "echo \"# $i files\"; test $i = 1000 && rm f7 && : > again && rm -f f* "
		     "again") == 0);
	take_down(false);
	CHECK_OK(disk_drop(disk, BOX));
	limits.inodes = 1u << 20;
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	reap_all(disk);
	done_with(disk, "inodes");
}

TEST(no_limit, "the directory driver refuses limits that it cannot enforce")
{
	auto_fd data = data_dir("nolimit");
	struct limits limits = {.disk = MIB};
	struct disk *disk = NULL;
	int tree = -1;

	CHECK_OK(disk_open(data, "directory", NULL, &disk));
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	limits = (struct limits){.inodes = 10};
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), INVALID);
	CHECK(tree == -1);
	disk_close(disk);
	CHECK_ERR(disk_open(data, "floppy", NULL, &disk), INVALID);
}

TEST(watermark, "a host whose disk is nearly full gets no new box")
{
	struct limits limits = {0};
	struct disk *disk = NULL;
	auto_fd data = -1;
	int tree = -1;

	CHECK(ready());
	CHECK(scratch_run("mkdir small && mount -t tmpfs -o size=16M small small") == 0);
	data = openat(scratch, "small", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(disk_open(data, "directory", NULL, &disk));
	CHECK(scratch_run("fallocate -l 15900K small/fill") == 0);
	CHECK_ERR(disk_make(disk, BOX, &limits, false, userns, &tree), NO_SPACE);
	CHECK(scratch_run("rm small/fill") == 0);
	CHECK_OK(disk_make(disk, BOX, &limits, false, userns, &tree));
	close(tree);
	CHECK_OK(disk_drop(disk, BOX));
	reap_all(disk);
	disk_close(disk);
	close(take_fd(&data));
	CHECK(scratch_run("umount small") == 0);
}

static int count(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fdopendir(fd);
	int n = 0;

	if (!entries)
		return -1;
	while (readdir(entries))
		n++;
	closedir(entries);
	return n - 2;
}

static void count_one(void *arg, const char *box)
{
	*(int *)arg += strncmp(box, "box-", 4) == 0;
}

static int disks(struct disk *disk)
{
	int n = 0;
	auto_err err = disk_each(disk, count_one, &n);

	return err ? -1 : n;
}

static int at_death(const char *word, const char *name)
{
	struct limits limits = {.disk = strcmp(word, "directory") ? 32 * MIB : 0};
	struct disk *disk = NULL;
	char path[128];
	int tree = -1;

	if (unshare(CLONE_NEWNS))
		return 1;
	snprintf(path, sizeof(path), "%s/%s", scratch_path, name);
	int data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); // of this mount namespace
	auto_err err = disk_open(data, word, NULL, &disk);

	for (int i = 0; !err && i < 3; i++) {
		char box[64];

		snprintf(box, sizeof(box), "box-%048d", i);
		err = disk_make(disk, box, &limits, true, userns, &tree);
		if (!err && (set_ids_files(BASE) || mkdirat(tree, "r/u/kept", 0755)))
			err = err_sys(errno, "leave something behind");
		set_ids_files(0);
	}
	// As a warden leaves it that was making one.
	mkdirat(data, "boxes/.making", 0755);
	if (err)
		printf("# %s\n", err_trail(err));
	return err != NULL; // and nothing is closed
}

// Not unmounted cleanly, as after a power cut: the superblock says so.
static void soil(int data, const char *box)
{
	char path[96];

	snprintf(path, sizeof(path), "boxes/%s.img", box);
	auto_fd file = openat(data, path, O_RDWR | O_CLOEXEC);

	if (file >= 0)
		CHECK(pwrite(file, "\0\0", 2, 1024 + 0x3a) == 2);
}

static void cut_short(int data, const char *box)
{
	char path[96];

	snprintf(path, sizeof(path), "boxes/%s.img", box);
	auto_fd file = openat(data, path, O_RDWR | O_CLOEXEC);

	if (file >= 0)
		CHECK(ftruncate(file, 0) == 0);
}

static void check_death(const char *word)
{
	struct limits limits = {.disk = strcmp(word, "directory") ? 32 * MIB : 0};
	char name[32];
	struct disk *disk = NULL;
	struct stat st;
	int status, pid;

	snprintf(name, sizeof(name), "dead-%s", word);
	auto_fd data = data_dir(name);

	pid = fork();
	if (pid == 0)
		_exit(at_death(word, name));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_OK(disk_open(data, word, NULL, &disk));
	CHECK(disks(disk) == 3);
	CHECK(count(data, strcmp(word, "btrfs") ? "boxes" : "pool") <= 4); // a template of images
	for (int i = 0; i < 3; i++) {
		char box[64];
		auto_fd tree = -1;

		snprintf(box, sizeof(box), "box-%048d", i);
		for (int tries = 0; tries < 100 && !disk_is_unmounted(disk, box); tries++)
			pause_ms(10);
		CHECK(disk_is_unmounted(disk, box));
		if (i == 1)
			soil(data, box);
		CHECK_OK(disk_repair(disk, box, &pid));
		CHECK((pid > 0) == (i == 1 && !strcmp(word, "ext4-image")));
		if (pid > 0) {
			CHECK_ERR(disk_again(disk, box, &limits, userns, &tree), INTERNAL);
			CHECK(waitpid(pid, &status, 0) == pid && disk_is_repaired(status));
			CHECK_OK(disk_repair(disk, box, &pid));
			CHECK(pid == 0);
		}
		CHECK_OK(disk_again(disk, box, &limits, userns, &tree));
		CHECK(fstatat(tree, "r/u/kept", &st, 0) == 0 && st.st_uid == BASE);
		if (!strcmp(word, "ext4-image") && i == 2) {
			CHECK(!disk_is_unmounted(disk, box));
			CHECK_ERR(disk_again(disk, box, &limits, userns, &tree), UNAVAILABLE);
		}
		// As a power cut leaves a disk that was being made.
		set_ids_files(BASE);
		CHECK(i != 0 || unlinkat(tree, "usr/w", AT_REMOVEDIR) == 0);
		set_ids_files(0);
		close(take_fd(&tree));
		for (int tries = 0; tries < 100 && !disk_is_unmounted(disk, box); tries++)
			pause_ms(10);
		if (i == 2)
			cut_short(data, box);
		if (i == 0 || (i == 2 && !strcmp(word, "ext4-image")))
			CHECK_ERR(disk_again(disk, box, &limits, userns, &tree), NOT_FOUND);
		CHECK_OK(disk_drop(disk, box));
		CHECK_ERR(disk_again(disk, box, &limits, userns, &tree), NOT_FOUND);
	}
	CHECK(disks(disk) == 0);
	done_with(disk, name);
}

TEST(death, "END-7 disks outlive a warden that was killed; its other leftovers are removed")
{
	CHECK(ready());
	check_death("btrfs");
	check_death("ext4-image");
	check_death("directory");
}

TEST(lost, "a pool that cannot be mounted is not made again, and no other driver replaces it")
{
	auto_fd data = data_dir("lost");
	struct disk *disk = NULL;

	CHECK_OK(disk_open(data, "btrfs", NULL, &disk));
	disk_close(disk);
	pause_ms(100);
	CHECK(scratch_run("cp --sparse=always lost/pool.img keep.img && "
			  "dd if=/dev/zero of=lost/pool.img bs=64k seek=1 count=1 conv=notrunc "
			  "2>/dev/null") == 0);
	disk = NULL;
	CHECK_ERR(disk_open(data, NULL, NULL, &disk), UNAVAILABLE);
	CHECK_ERR(disk_open(data, "btrfs", NULL, &disk), UNAVAILABLE);
	CHECK(scratch_run("mv keep.img lost/pool.img") == 0);
	CHECK_OK(disk_open(data, NULL, NULL, &disk));
	CHECK_STR(disk_word(disk), "btrfs");
	done_with(disk, "lost");
}

TEST(private_dir, "the directory of the boxes is closed to others, and covered nosuid,nodev")
{
	auto_fd data = data_dir("private");
	struct disk *disk = NULL;

	CHECK_OK(disk_open(data, "directory", NULL, &disk));
	CHECK(scratch_run("test $(stat -c %a:%u private/boxes) = 700:0 && "
			  "findmnt -no OPTIONS private/boxes | grep -q nosuid,nodev") == 0);
	disk_close(disk);
	CHECK(scratch_run("! findmnt private/boxes") == 0);
}

TEST(no_trace, "no loop device and no mount of ours is left")
{
	bool is_left = true;

	// The kernel clears a loop device when the last user has let go.
	for (int i = 0; i < 300 && is_left; i++) {
		pause_ms(100);
		is_left = scratch_run("! losetup -a | grep -F $PWD && "
				      "! grep -F $PWD /proc/self/mountinfo") != 0;
	}
	CHECK(!is_left);
}
