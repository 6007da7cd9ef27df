// doctor: probes the kernel's features by using each once, checks host settings, and asks the
// daemon. The features decide the exit status.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/weak.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "lib/fields.h"
#include "os/host_settings.h"
#include "os/path.h"
#include "os/probe.h"

#define WARNINGS_MAX 12
#define LISTS "/var/lib/dpkg/info"
#define LIST_MAX (32u << 20)
#define FOUND_MAX 256
#define NAMED_MAX 5
#define WALK_FDS 16

struct warning {
	const char *what, *fix;
};

struct report {
	struct probe_row rows[PROBE_ROWS_MAX];
	size_t row_count;
	struct warning warnings[WARNINGS_MAX];
	size_t warning_count;
	char private[640];		// of /usr, as words of a warning
	uint64_t pool_bytes, disk_free; // of pool.img, 0: there is none; of its file system
	struct json *mirrors;		// as the daemon has tried them; NULL: it did not say
	bool reachable;
	char url[128], version[64], trouble[256];
};

// Private files of /usr: not world-readable, or beneath a closed directory. Files of packages
// (dpkg's lists) do not count: anybody can download them.
//
// nftw() has no user argument.
static struct {
	char *paths[FOUND_MAX];
	size_t count;
	char *closed; // the last closed directory: everything beneath it is closed, too
} walk;

static bool is_beneath(const char *path, const char *dir)
{
	size_t len = dir ? strlen(dir) : 0;

	return dir && !strncmp(path, dir, len) && path[len] == '/';
}

static int usr_visit(const char *path, const struct stat *st, int type, struct FTW *where)
{
	bool beneath = is_beneath(path, walk.closed);

	(void)where;
	if (type == FTW_D && !beneath && (st->st_mode & 05) != 05) {
		free(walk.closed);
		walk.closed = mem_str(path);
		beneath = true;
	}
	if (!beneath && !(S_ISREG(st->st_mode) && !(st->st_mode & S_IROTH)))
		return 0;
	if (type != FTW_SL && walk.count < FOUND_MAX)
		walk.paths[walk.count++] = mem_str(path);
	return 0;
}

// Removes the files of one package from the map.
static void drop_listed(int dir, const char *list, struct map *found)
{
	auto_buf text = BUF_INIT(LIST_MAX);
	auto_err err = path_read(dir, list, &text);
	struct str rest = buf_view(&text), line;

	while (!err && map_count(found) && str_cut(&rest, '\n', &line))
		map_take(found, line);
}

static void drop_packaged(struct map *found)
{
	DIR *dir = map_count(found) ? opendir(LISTS) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (str_ends(str_of(entry->d_name), ".list"))
			drop_listed(dirfd(dir), entry->d_name, found);
	if (dir)
		closedir(dir);
}

// Skips files beneath a directory that is already listed.
static size_t usr_list(const struct map *found, char *room, size_t size)
{
	const char *last = NULL;
	size_t named = 0, len = 0;

	room[0] = 0;
	for (size_t i = 0; i < walk.count; i++) {
		const char *path = walk.paths[i];

		if (!map_get(found, str_of(path)) || is_beneath(path, last))
			continue;
		last = path;
		if (named++ < NAMED_MAX && len + strlen(path) + 3 < size)
			len += (size_t)snprintf(room + len, size - len, "%s%s", len ? ", " : "",
						path);
	}
	return named;
}

// Lists the first few files of /usr that only their owner may read, separated by ", ", and returns
// their number. Every sandbox of the template `host` can read them: its root has the owner's rights
// there. Takes some tenths of a second. Not reentrant.
static size_t usr_private_files(char *room, size_t size)
{
	struct map *found = map_new();
	size_t count;

	nftw("/usr", usr_visit, WALK_FDS, FTW_PHYS | FTW_MOUNT);
	for (size_t i = 0; i < walk.count; i++)
		map_put(found, str_of(walk.paths[i]), walk.paths[i]);
	drop_packaged(found);
	count = usr_list(found, room, size);
	map_free(found);
	while (walk.count > 0)
		free(walk.paths[--walk.count]);
	free(walk.closed);
	walk.closed = NULL;
	return count;
}

static void warn_usr(struct report *report)
{
	char paths[512];
	size_t count = usr_private_files(paths, sizeof(paths));

	if (!count)
		return;
	snprintf(
		report->private, sizeof(report->private),
		"sandboxes of the template 'host' can read what is private in /usr, %zu in all: %s",
		count, paths);
	report->warnings[report->warning_count++] = (struct warning){
		report->private, "move it out of /usr, or import a template for sandboxes"};
}

static void doctor_add_warning(void *arg, const char *what, const char *fix)
{
	struct report *report = arg;

	report->warnings[report->warning_count++] = (struct warning){what, fix};
}

static void warn(struct report *report, const char *data)
{
	struct host_settings settings;

	if (WEAK_BUILD)
		doctor_add_warning(report, "this is a WEAK build: its defences can be switched off",
				   "install the one that 'make' builds");
	if (probe_is_chroot())
		doctor_add_warning(report, PROBE_CHROOT, PROBE_CHROOT_FIX);
	host_settings_open(data, &settings);
	host_settings_look(&settings, doctor_add_warning, report);
	host_settings_close(&settings);
	warn_usr(report);
}

static void doctor_measure_disk(struct report *report, int dir)
{
	struct statvfs fs;
	struct stat pool;

	if (fstatat(dir, "pool.img", &pool, AT_SYMLINK_NOFOLLOW) == 0)
		report->pool_bytes = (uint64_t)pool.st_blocks * 512;
	if (fstatvfs(dir, &fs) == 0)
		report->disk_free = (uint64_t)fs.f_bavail * fs.f_frsize;
}

// The data directory, or the nearest existing parent: on the same file system.
static fallible doctor_probe(struct report *report, const char *data)
{
	auto_free char *path = mem_str(data);
	auto_fd dir = -1;

	while ((dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		char *slash = strrchr(path, '/');

		if (!slash || slash == path)
			return err_new(INVALID, "no_data", "'%s' leads nowhere", data);
		*slash = 0;
	}
	report->row_count = probe_all(dir, report->rows, PROBE_ROWS_MAX);
	doctor_measure_disk(report, dir);
	return OK;
}

static fallible ask_daemon(struct report *report, const struct call *call)
{
	auto_remote remote = {0};
	auto_json health = NULL;

	TRY(remote_open(&remote, call));
	snprintf(report->url, sizeof(report->url), "%s", cove_url(remote.cove));
	TRY(remote_ask(&remote, "GET", "/v1/health", NULL, NULL, &health));
	report->reachable = true;
	if (health)
		snprintf(report->version, sizeof(report->version), "%s",
			 fields_text(health, "version"));
	// Mirrors are for the operator's key.
	err_free(remote_ask(&remote, "GET", "/v1/doctor", NULL, NULL, &report->mirrors));
	return OK;
}

static void knock(struct report *report, const struct call *call)
{
	auto_err err = ask_daemon(report, call);

	if (err)
		snprintf(report->trouble, sizeof(report->trouble), "%s", err_message(err));
}

static bool is_fit(const struct report *report)
{
	for (size_t i = 0; i < report->row_count; i++)
		if (report->rows[i].required && !report->rows[i].ok)
			return false;
	return true;
}

static void write_features(struct json_out *out, const struct report *report)
{
	json_key(out, "disk");
	json_begin(out, '{');
	json_put_int(out, "poolBytes", (int64_t)report->pool_bytes);
	json_put_int(out, "freeBytes", (int64_t)report->disk_free);
	json_end(out, '}');
	json_key(out, "features");
	json_begin(out, '[');
	for (size_t i = 0; i < report->row_count; i++) {
		const struct probe_row *row = &report->rows[i];

		json_begin(out, '{');
		json_put_text(out, "feature", row->feature);
		json_put_bool(out, "required", row->required);
		json_put_bool(out, "ok", row->ok);
		json_put_text(out, "found", row->found);
		json_put_text(out, "without", row->without);
		json_put_text(out, "fix", row->fix);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void write_mirrors(struct json_out *out, const struct report *report)
{
	const struct json *list = report->mirrors ? json_get(report->mirrors, "mirrors") : NULL;

	json_key(out, "mirrors");
	if (list)
		json_add_value(out, list);
	else
		json_add_null(out);
}

static void print_mirrors(const struct report *report)
{
	const struct json *list = report->mirrors ? json_get(report->mirrors, "mirrors") : NULL;

	for (size_t i = 0; list && i < json_count(list); i++) {
		const struct json *mirror = json_at(list, i);
		bool ok = false;

		err_free(json_bool(json_get(mirror, "ok"), "ok", &ok));
		print_line("mirror of %s: %s %s", fields_text(mirror, "registry"),
			   fields_text(mirror, "url"),
			   ok ? "answers" : fields_text(mirror, "message"));
		if (!ok && fields_text(mirror, "hint")[0])
			print_line("  fix: %s", fields_text(mirror, "hint"));
	}
}

static void print_as_json(const struct report *report)
{
	auto_buf text = BUF_INIT(1 << 20);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_bool(&out, "ok", is_fit(report));
	write_features(&out, report);
	write_mirrors(&out, report);
	json_key(&out, "warnings");
	json_begin(&out, '[');
	for (size_t i = 0; i < report->warning_count; i++) {
		json_begin(&out, '{');
		json_put_text(&out, "message", report->warnings[i].what);
		json_put_text(&out, "fix", report->warnings[i].fix);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_key(&out, "daemon");
	json_begin(&out, '{');
	json_put_bool(&out, "reachable", report->reachable);
	json_put_text(&out, "url", *report->url ? report->url : NULL);
	json_put_text(&out, "version", *report->version ? report->version : NULL);
	json_put_text(&out, "message", *report->trouble ? report->trouble : NULL);
	json_end(&out, '}');
	json_end(&out, '}');
	print_json(buf_view(&text));
}

static void print_features(const struct report *report)
{
	static const char *const heads[] = {"FEATURE", "NEEDED", "STATE", "FOUND"};
	auto_grid grid = {.columns = 4};

	for (size_t i = 0; i < 4; i++)
		grid_add(&grid, heads[i]);
	for (size_t i = 0; i < report->row_count; i++) {
		const struct probe_row *row = &report->rows[i];

		grid_add(&grid, row->feature);
		grid_add(&grid, row->required ? "yes" : "-");
		grid_add(&grid, row->ok ? "ok" : "missing");
		grid_add(&grid, row->found);
	}
	grid_print(&grid, stdout);
}

static void print_disk(const struct report *report)
{
	unsigned long long pool = report->pool_bytes >> 20, left = report->disk_free >> 20;

	if (pool)
		print_line("disk: the sandboxes' files take %llu MiB (pool.img), which grows and "
			   "shrinks with their use; %llu MiB are free beside it",
			   pool, left);
	else
		print_line("disk: there is no pool.img; a start of cove makes one of 256 MiB "
			   "(--pool-start); %llu MiB are free",
			   left);
}

static void print_as_text(const struct report *report)
{
	print_features(report);
	putchar('\n');
	for (size_t i = 0; i < report->row_count; i++) {
		const struct probe_row *row = &report->rows[i];

		if (row->ok)
			continue;
		print_line("%s is missing: %s", row->feature,
			   row->without ? row->without : "cove does not start");
		print_line("  fix: %s", row->fix ? row->fix : "unknown");
	}
	for (size_t i = 0; i < report->warning_count; i++) {
		print_line("warning: %s", report->warnings[i].what);
		print_line("  fix: %s", report->warnings[i].fix);
	}
	print_disk(report);
	print_mirrors(report);
	if (report->reachable)
		print_line("daemon: version %s answers at %s", report->version, report->url);
	else
		print_line("daemon: %s", report->trouble);
	if (WEAK_BUILD)
		print_line("This build must not be used: it is for tests alone.");
	print_line("%s", is_fit(report) ? "This host can run cove." : "This host cannot run cove.");
}

fallible doctor_look(struct call *call)
{
	auto_free struct report *report = mem_new_of(struct report);

	if (geteuid() != 0)
		return err_hint(err_new(FORBIDDEN, "not_root",
					"the kernel's features can be tried by root only"),
				"sudo cove doctor");
	TRY(doctor_probe(report, remote_data(call)));
	warn(report, remote_data(call));
	knock(report, call);
	if (call_has(call, OPT_JSON))
		print_as_json(report);
	else
		print_as_text(report);
	json_free(report->mirrors);
	call->exit = is_fit(report) && !WEAK_BUILD ? 0 : 1;
	return OK;
}
