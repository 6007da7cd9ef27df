#include "warden/template.h"

#include <signal.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "os/fd.h"
#include "os/ns.h"
#include "scratch.h"
#include "tap.h"

static struct templates *all;
static int data = -1, userns = -1;
static struct answer answer; // to the import that ended last

static bool ready(void)
{
	auto_err err = OK;

	if (all)
		return true;
	signal(SIGPIPE, SIG_IGN);
	err = path_dir(scratch, "data", 0711, &data);
	if (!err)
		err = ns_user(1u << 20, &userns);
	if (!err)
		err = templates_open(data, &all);
	if (!err && scratch_run("mkdir archives && cd archives && python3 "
				"\"$COVE_SOURCE\"/test/unit/warden/archives.py"))
		return false;
	return !err;
}

// The place of this source tree, before anything else changes directory.
__attribute__((constructor(102))) static void remember(void)
{
	char here[512];

	if (getcwd(here, sizeof(here)))
		setenv("COVE_SOURCE", here, 0);
}

// Waits until the child that makes a template has been reaped.
static bool wait_answer(void)
{
	int status, pid;

	answer = (struct answer){0};
	while ((pid = waitpid(-1, &status, 0)) > 0)
		if (template_reaped(all, pid, status, &answer))
			return true;
	return false;
}

static void rest(void)
{
	int status, pid;

	while ((pid = waitpid(-1, &status, 0)) > 0)
		template_reaped(all, pid, status, &answer);
}

static const struct group_door no_door = {.into = -1};

static void feed(int pipe, const char *archive)
{
	auto_free char *room = mem_new(65536);
	auto_fd dir = openat(scratch, "archives", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd in = openat(dir, archive, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	while ((got = read(in, room, 65536)) > 0)
		if (fd_write_all(pipe, room, (size_t)got))
			break;
}

static bool import(const char *name, const char *archive)
{
	struct order order = {.kind = ORDER_IMPORT, .id = 7};
	auto_fd pipe = -1;
	int64_t began = clock_ms();

	snprintf(order.name, sizeof(order.name), "%s", name);
	auto_err err = template_import(all, &order, userns, &no_door, &pipe);

	if (err) {
		printf("# %s\n", err_trail(err));
		return false;
	}
	feed(pipe, archive);
	close(take_fd(&pipe));
	if (!wait_answer() || answer.id != 7 || answer.to != ORDER_IMPORT)
		return false;
	if (answer.kind != ANSWER_DONE)
		printf("# %s: %s: %s (%lld ms)\n", archive, answer.reason, answer.message,
		       (long long)(clock_ms() - began));
	return true;
}

static bool refused(const char *archive, enum err_kind kind, const char *reason)
{
	return import("refused", archive) && answer.kind == ANSWER_REFUSED &&
	       answer.error == kind && !strcmp(answer.reason, reason);
}

TEST(good, "a tar becomes a template with its owners, modes and links, unshifted on disk")
{
	CHECK(ready());
	CHECK(import("good", "good.tar") && answer.kind == ANSWER_DONE);
	CHECK(answer.files >= 10 && answer.bytes > 0);
	CHECK(scratch_run("cd data/layers/good/root && test \"$(cat abs l 2>/dev/null)\" = abs && "
			  "test \"$(cat etc/f)\" = hello && test etc/f -ef h && "
			  "test \"$(readlink l)\" = /etc/f && test \"$(cat ä/ö)\" = utf8") == 0);
	CHECK(scratch_run("cd data/layers/good/root && stat -c '%u:%g:%a' . etc etc/f su far | "
			  "tr '\\n' ' ' | grep -qx '0:0:755 7:8:750 1000:50:640 0:0:4755 "
			  "65534:65534:644 ' && test $(stat -c %Y etc/f) = 1000000000") == 0);
}

TEST(nodes, "device nodes and pipes are dropped, and attributes but user.*")
{
	CHECK(ready());
	CHECK(scratch_run("cd data/layers/good/root && ! ls -d null disk pipe 2>/dev/null && "
			  "test -z \"$(find . -type b -o -type c -o -type p)\"") == 0);
	CHECK(scratch_run("cd data/layers/good/root && python3 -c \"import os; "
			  "assert os.listxattr('x') == ['user.note'], os.listxattr('x')\"") == 0);
	CHECK(refused("nodes.tar", ERR_INVALID, "bad_archive"));
}

TEST(packed, "gzip, xz, bzip2 and zstd are unpacked")
{
	static const char *const packings[] = {"gz", "xz", "bz2", "zst"};
	char archive[32], name[32];

	CHECK(ready());
	for (size_t i = 0; i < 4; i++) {
		snprintf(archive, sizeof(archive), "good.tar.%s", packings[i]);
		snprintf(name, sizeof(name), "packed-%s", packings[i]);
		if (faccessat(scratch, "archives", F_OK, 0))
			continue;
		char path[64];

		snprintf(path, sizeof(path), "archives/%s", archive);
		if (faccessat(scratch, path, F_OK, 0)) {
			printf("# SKIP no program here packs %s\n", packings[i]);
			continue;
		}
		CHECK(import(name, archive) && answer.kind == ANSWER_DONE);
		CHECK_OK(template_forget(all, name));
	}
}

TEST(no_archive, "a file that is no archive, or truncated, is refused and leaves nothing")
{
	static const char *const bad[] = {"empty", "noise", "nothing.tar", "cut.tar", "cut.tar.gz"};

	CHECK(ready());
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(refused(bad[i], ERR_INVALID, "bad_archive"));
}

TEST(ways_out, "no name and no link in an archive leads outside (F-11)")
{
	static const char *const bad[] = {"dotdot.tar",	 "dotdot2.tar",	     "hard-out.tar",
					  "hard-up.tar", "through-file.tar", "deep.tar",
					  "long.tar",	 "device-dir.tar",   "swap.tar"};

	CHECK(ready());
	CHECK(scratch_run("echo sentinel > sentinel") == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(refused(bad[i], ERR_INVALID, "bad_archive"));
	CHECK(import("links", "sym-up.tar") && answer.kind == ANSWER_DONE);
	// Links are followed, but inside: everything is in the root.
	CHECK(scratch_run("cd data/layers/links/root && test -f evil_up -a -f evil_abs -a -f ok -a "
			  "-f h && cd ../.. && "
			  "test \"$(ls links | tr '\\n' ' ')\" = 'meta root '") == 0);
	CHECK(import("file", "sym-file.tar") && answer.kind == ANSWER_DONE);
	CHECK(scratch_run("test \"$(cat data/layers/file/root/lnk)\" = new && "
			  "test -f data/layers/file/root/lnk -a ! -L data/layers/file/root/lnk") ==
	      0);
	CHECK(scratch_run("test -z \"$(find / -xdev -name 'evil*' -not -path '*/data/layers/*' "
			  "-not -path '/usr/*' -not -path '/proc/*' -maxdepth 3)\"") == 0);
	CHECK(scratch_run("test \"$(cat sentinel)\" = sentinel") == 0);
}

TEST(bombs, "a bomb is stopped by its ratio, and claims decide nothing (F-13)")
{
	CHECK(ready());
	CHECK(refused("bomb.tar.gz", ERR_TOO_LARGE, "archive_bomb"));
	CHECK(refused("claims.tar", ERR_INVALID, "bad_archive"));
}

TEST(images, "an image's layers are applied in order, with their whiteouts")
{
	static const char *const good[] = {"image.tar", "image-plain.tar", "image-platform.tar",
					   "saved.tar"};

	CHECK(ready());
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CHECK(import("image", good[i]) && answer.kind == ANSWER_DONE);
		CHECK(scratch_run("cd data/layers/image && test \"$(ls | tr '\\n' ' ')\" = "
				  "'meta root ' && cd root && test ! -e etc/a && "
				  "test \"$(cat etc/b)\" = b2 && "
				  "test \"$(find opt -type f | sort | tr '\\n' ' ')\" = "
				  "'opt/deep/new opt/y ' && test -L bin && test -x usr/bin/tool && "
				  "test -f was-dir && test $(stat -c %a usr/bin/su) = 4755 && "
				  "test -z \"$(find . -name '.wh*')\"") == 0);
		CHECK_OK(template_forget(all, "image"));
	}
}

TEST(bad_images, "images that contradict their index are refused with the reason (G-03)")
{
	static const struct {
		const char *archive, *reason;
	} bad[] = {
		{"image-digest.tar", "digest_mismatch"}, {"image-size.tar", "digest_mismatch"},
		{"image-type.tar", "bad_media_type"},	 {"image-many.tar", "too_many_layers"},
		{"image-huge.tar", "bad_image"},	 {"image-version.tar", "bad_image"},
		{"image-noise.tar", "bad_json"},	 {"image-foreign.tar", "wrong_platform"},
		{"image-escape.tar", "bad_archive"},	 {"image-escape2.tar", "bad_archive"},
		{"image-escape3.tar", "bad_archive"},	 {"image-layer.tar", "bad_archive"},
		{"image-env.tar", "bad_image"},		 {"image-user.tar", "bad_image"},
		{"image-diffs.tar", "bad_image"},	 {"saved-digest.tar", "digest_mismatch"},
		{"saved-escape.tar", "bad_image"},
	};

	CHECK(ready());
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(refused(bad[i].archive, ERR_INVALID, bad[i].reason));
}

TEST(clean, "a refused import leaves nothing behind")
{
	int root = -1, usr = -1;

	CHECK(ready());
	rest();
	CHECK(scratch_run("cd data/layers && ! ls -d .new-* refused 2>/dev/null && "
			  "test -z \"$(ls .trash)\"") == 0);
	CHECK_ERR(template_find(all, "refused", &root, &usr), NOT_FOUND);
}

TEST(names, "bad names are refused, taken ones are a conflict, unknown ones get a list (G-05)")
{
	static const char *const bad[] = {"../x", "a/b",  "",	   ".x",
					  "A",	  "x..y", "CON\n", "\xc3\xa4"};
	struct order order = {.kind = ORDER_IMPORT, .id = 1};
	int pipe = -1, root = -1, usr = -1;

	CHECK(ready());
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(order.name, sizeof(order.name), "%s", bad[i]);
		CHECK_ERR(template_import(all, &order, userns, &no_door, &pipe), INVALID);
		CHECK_ERR(template_find(all, bad[i], &root, &usr), NOT_FOUND);
		CHECK_ERR(template_forget(all, bad[i]), NOT_FOUND);
	}
	snprintf(order.name, sizeof(order.name), "host");
	CHECK_ERR(template_import(all, &order, userns, &no_door, &pipe), CONFLICT);
	CHECK_ERR(template_freeze(all, &order), CONFLICT);
	CHECK_ERR(template_forget(all, "host"), CONFLICT);
	snprintf(order.name, sizeof(order.name), "good");
	CHECK_ERR(template_import(all, &order, userns, &no_door, &pipe), CONFLICT);

	auto_err err = template_find(all, "nowhere", &root, &usr);

	CHECK(err && strstr(err_hint_of(err), "host") && strstr(err_hint_of(err), "good"));
	CHECK(pipe == -1 && root == -1 && usr == -1);
}

TEST(host, "the host's template is made in a second, once, with the tools' files and no secrets")
{
	int64_t began = clock_us();
	auto_fd root = -1;
	auto_fd usr = -1;

	CHECK(ready());
	CHECK_OK(template_find(all, "host", &root, &usr));
	printf("# skeleton of the host: %lld us\n", (long long)(clock_us() - began));
	CHECK(root >= 0 && usr >= 0);
	close(take_fd(&root));
	close(take_fd(&usr));
	began = clock_us();
	CHECK_OK(template_find(all, "host", &root, &usr));
	printf("# found again: %lld us\n", (long long)(clock_us() - began));
	CHECK(scratch_run("cd data/layers/.host-*/root && ! grep -rl PRIVATE etc && "
			  "! grep -v -e ':[*]:' etc/shadow && grep -q ^agent:x:1000: etc/passwd && "
			  "test -L bin -a -L lib -a -f etc/ld.so.cache -a -d etc/alternatives -a "
			  "-f etc/nsswitch.conf && test \"$(cat etc/hosts | head -1)\" = "
			  "'127.0.0.1 localhost' && ! grep -r \"$(hostname)$\" etc/hosts "
			  "etc/hostname && "
			  "for f in machine-id ssh sudoers ssl/private npmrc pip.conf fstab; do "
			  "test ! -e etc/$f || exit 1; done && stat -c %a tmp root workspace "
			  "home/agent | tr '\\n' ' ' | grep -qx '1777 700 755 755 '") == 0);
	CHECK(scratch_run("test ! -e /var/lib/dpkg/status || cmp /var/lib/dpkg/status "
			  "data/layers/.host-*/root/var/lib/dpkg/status") == 0);
	// What only dpkg --verify and dpkg-shlibdeps read is not copied, equal triggers once.
	CHECK(scratch_run(
		      "cd data/layers/.host-*/root/var/lib/dpkg && test ! -e status-old && "
		      "test -z \"$(find info -name '*.md5sums' -size +0)\" && "
		      "for f in info/*.symbols; do test ! -e \"${f%.symbols}.shlibs\" || exit 1; "
		      "done; "
		      "for f in info/*.triggers info/*.list; do cmp \"$f\" \"/var/lib/dpkg/$f\" || "
		      "exit 1; done; ls info | grep -v symbols$ >/tmp/copied.$$; "
		      "ls /var/lib/dpkg/info | grep -v symbols$ | cmp - /tmp/copied.$$; s=$?; "
		      "rm /tmp/copied.$$; exit $s") == 0);
}

TEST(tools, "the tools of the host run in its template")
{
	CHECK(ready());
	CHECK(scratch_run(
		      "r=$(echo data/layers/.host-*/root); mkdir merged up work && "
		      "mount -t overlay -o lowerdir=$r,upperdir=up,workdir=work o merged && "
		      "mount --bind /usr merged/usr && mount -t proc proc merged/proc && "
		      "mount --bind /dev merged/dev; "
		      "for c in 'dpkg --audit' 'dpkg -l dpkg' 'id agent' 'apt-cache policy dpkg' "
		      "'python3 -c \"import ssl,json; ssl.create_default_context()\"' "
		      "'perl -e 1' 'git --version' 'su agent -c true' "
		      "'which -s node || node -e 1' 'which -s gcc || gcc --version'; do "
		      "chroot merged sh -c \"$c\" >/dev/null 2>err || { echo \"# $c: $(cat err)\"; "
		      "exit 1; }; done") == 0);
	CHECK(scratch_run("umount merged/dev merged/proc merged/usr merged") == 0);
}

TEST(list, "the list is sorted and paged")
{
	struct answer page = {0};

	CHECK(ready());
	CHECK_OK(template_list(all, "", &page));
	CHECK(page.template_count == 4);
	CHECK_STR(page.templates[0].name, "file");
	CHECK_STR(page.templates[2].name, "host");
	CHECK(page.templates[2].is_host && !page.templates[0].is_host);
	CHECK(page.templates[1].bytes > 0 && page.templates[1].created > 0);
	CHECK_OK(template_list(all, "good", &page));
	CHECK(page.template_count == 2);
	CHECK_STR(page.templates[1].name, "links");
}

TEST(forget, "a removed template is hidden, and deleted when no older box lives")
{
	int root = -1, usr = -1;

	CHECK(ready());
	CHECK_OK(template_forget(all, "links"));
	CHECK_ERR(template_forget(all, "links"), NOT_FOUND);
	CHECK_ERR(template_find(all, "links", &root, &usr), NOT_FOUND);
	CHECK(templates_has_gone(all));
	templates_idle(all, 0);
	CHECK(templates_has_gone(all));
	CHECK(scratch_run("ls -d data/layers/.gone-*/root >/dev/null") == 0);
	templates_idle(all, INT64_MAX);
	CHECK(!templates_has_gone(all));
	rest();
	CHECK(scratch_run("! ls -d data/layers/.gone-* 2>/dev/null && "
			  "test -z \"$(ls data/layers/.trash)\"") == 0);
}

TEST(unknown, "a removed template whose id cannot be read stays: a snapshot may stand on it")
{
	CHECK(ready());
	CHECK(scratch_run("cp -a data/layers/good data/layers/base && "
			  "mkdir data/layers/base/id") == 0);
	CHECK_OK(template_forget(all, "base"));
	templates_idle(all, INT64_MAX);
	CHECK(templates_has_gone(all));
	CHECK(scratch_run("rmdir data/layers/.gone-*/id") == 0);
	templates_idle(all, INT64_MAX);
	CHECK(!templates_has_gone(all));
	rest();
}

TEST(parent, "the template below a layer that is being unpacked is in use")
{
	struct order order = {.kind = ORDER_LAYER, .id = 1, .parent = "good"};
	int archive[2];

	CHECK(ready());
	CHECK(pipe2(archive, O_CLOEXEC) == 0);
	snprintf(order.name, sizeof(order.name), ORDER_LAYERS "%056d", 1);
	snprintf(order.digest, sizeof(order.digest), "%0*d", ORDER_DIGEST, 0);
	CHECK_OK(template_layer(all, &order, userns, &no_door, archive[0]));
	CHECK(template_is_read(all, "good"));
	CHECK(!template_is_read(all, "file"));
	close(archive[0]);
	close(archive[1]);
	rest();
	CHECK(!template_is_read(all, "good"));
}

TEST(at_once, "few templates are made at a time, and a close ends them")
{
	struct order order = {.kind = ORDER_IMPORT, .id = 1};
	int pipes[5] = {-1, -1, -1, -1, -1};

	CHECK(ready());
	for (int i = 0; i < 4; i++) {
		snprintf(order.name, sizeof(order.name), "many-%d", i);
		CHECK_OK(template_import(all, &order, userns, &no_door, &pipes[i]));
	}
	CHECK_ERR(template_import(all, &order, userns, &no_door, &pipes[4]), CONFLICT);
	snprintf(order.name, sizeof(order.name), "many-4");
	CHECK_ERR(template_import(all, &order, userns, &no_door, &pipes[4]), EXHAUSTED);
	templates_close(all);
	all = NULL;
	for (int i = 0; i < 4; i++)
		close(pipes[i]);
	CHECK_OK(templates_open(data, &all));
	rest();
	CHECK(scratch_run("! ls -d data/layers/.new-* data/layers/many-* 2>/dev/null") == 0);
}

TEST(end, "nothing is left")
{
	if (all) {
		templates_idle(all, INT64_MAX);
		templates_close(all);
	}
	CHECK(scratch_run("! grep -F $PWD /proc/self/mountinfo") == 0);
}
