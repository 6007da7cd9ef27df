// SQLite driver. One connection writes, used by one thread at a time, with a full sync at every
// commit. Readers run beside it: in WAL mode neither waits for the other. A reader is opened for
// each query and soon closed, so that the WAL can be restarted.
//
// SQLite opens files by path, but the confined daemon may not be able to reach the directory: it
// holds a descriptor instead. A file that cannot be written is opened read-only. A read-only WAL
// needs a connection without locks, which is safe because a running cove holds the lock of its data
// directory.
//
// syscalls: pread64 pwrite64 fsync fdatasync ftruncate fcntl lseek fallocate fchmod close geteuid
// syscalls: getpid clock_gettime clock_nanosleep fstatfs openat newfstatat faccessat faccessat2
// syscalls: unlinkat fstat
#include "store/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/str.h"

// Splits a path of ours into directory and name; any other path is AT_FDCWD and itself. The
// directory alone is named ".".
static int sqlite_files_split(const char *path, const char **out_name)
{
	struct str rest = str_of(path), fd;
	uint64_t number;

	*out_name = path;
	if (!str_starts(rest, "/@"))
		return AT_FDCWD;
	rest = str_skip(rest, 2);
	str_cut(&rest, '/', &fd);
	if (!str_to_u64(fd, 0, INT32_MAX, &number))
		return AT_FDCWD;
	*out_name = rest.at && rest.len ? rest.at : ".";
	return (int)number;
}

static int lead_open(const char *path, int flags, int mode)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	// Readable by the owner alone, whatever the directory allows.
	return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, mode & 0600);
}

static int lead_access(const char *path, int mode)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return faccessat(dir, name, mode, 0);
}

static int lead_stat(const char *path, struct stat *out)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return fstatat(dir, name, out, 0);
}

static int lead_lstat(const char *path, struct stat *out)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	// SQLite calls it for each part of a path to resolve symlinks. Ours have none.
	if (dir != AT_FDCWD && !strcmp(name, ".")) {
		errno = ENOENT;
		return -1;
	}
	return fstatat(dir, name, out, AT_SYMLINK_NOFOLLOW);
}

static int lead_unlink(const char *path)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return unlinkat(dir, name, 0);
}

static void sqlite_files_lead(void)
{
	static const struct {
		const char *vfs;
	} all[] = {{"unix"}, {"unix-none"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		sqlite3_vfs *vfs = sqlite3_vfs_find(all[i].vfs);

		if (!vfs || vfs->iVersion < 3)
			continue;
		vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)lead_open);
		vfs->xSetSystemCall(vfs, "access", (sqlite3_syscall_ptr)lead_access);
		vfs->xSetSystemCall(vfs, "stat", (sqlite3_syscall_ptr)lead_stat);
		vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)lead_lstat);
		vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)lead_unlink);
	}
}

static void sqlite_files_path(int dir, const char *name, char *room, size_t size)
{
	snprintf(room, size, "/@%d/%s", dir, name);
}

#define BUSY_MS 5000
#define CHECK_BYTES (16u << 20) // a larger database is not checked as a whole at start
#define STATEMENTS_MAX 512	// more than the texts of SQL in this folder
#define PATH_ROOM 160
#define JOURNAL_BYTES (4200 << 10) // its size between two checkpoints
#define SPARE_BYTES (256u << 20)

enum mode { WRITING, READING, BESIDE };

struct kept {
	const char *sql;
	sqlite3_stmt *statement;
	bool busy;
};

struct sqlite {
	struct db db;
	sqlite3 *at;
	struct kept kept[STATEMENTS_MAX];
	int kept_count;
};

static struct sqlite *of(struct db *db)
{
	return (struct sqlite *)db;
}

static fallible sqlite_explain(sqlite3 *at, int code, const char *doing)
{
	const char *words = at ? sqlite3_errmsg(at) : sqlite3_errstr(code);

	switch (code & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_while(db_corrupt(), "%s: %s", doing, words);
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_BUSY:
	case SQLITE_PROTOCOL:
		return err_while(
			err_hint(err_new(UNAVAILABLE, DB_UNWRITABLE,
					 "the state cannot be written: nothing new can be done"),
				 "the operator has to make room on its disk; try again then"),
			"%s: %s", doing, words);
	case SQLITE_CONSTRAINT:
		return err_while(err_new(CONFLICT, "state_conflict", "it is there already"),
				 "%s: %s", doing, words);
	default:
		return err_sys(0, "%s: %s", doing, words);
	}
}

static fallible sqlite_prepare(struct db *db, const char *sql, void **out)
{
	struct sqlite *lite = of(db);
	struct kept *kept = NULL;
	int code;

	for (int i = 0; i < lite->kept_count && !kept; i++)
		if (lite->kept[i].sql == sql)
			kept = &lite->kept[i];
	if (!kept) {
		assert(lite->kept_count < STATEMENTS_MAX);
		kept = &lite->kept[lite->kept_count];
		code = sqlite3_prepare_v3(lite->at, sql, -1, SQLITE_PREPARE_PERSISTENT,
					  &kept->statement, NULL);
		if (code != SQLITE_OK)
			return sqlite_explain(lite->at, code, "prepare");
		kept->sql = sql;
		lite->kept_count++;
	}
	assert(!kept->busy);
	kept->busy = true;
	*out = kept->statement;
	return OK;
}

static void sqlite_release(struct db *db, void *statement)
{
	struct sqlite *lite = of(db);

	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	for (int i = 0; i < lite->kept_count; i++)
		if (lite->kept[i].statement == statement)
			lite->kept[i].busy = false;
}

static void put_int(void *statement, int at, int64_t value)
{
	sqlite3_bind_int64(statement, at, value);
}

static void put_text(void *statement, int at, struct str text)
{
	sqlite3_bind_text64(statement, at, text.at, text.len, SQLITE_STATIC, SQLITE_UTF8);
}

static void put_bytes(void *statement, int at, const void *bytes, size_t len)
{
	sqlite3_bind_blob64(statement, at, bytes ? bytes : "", len, SQLITE_STATIC);
}

static fallible sqlite_step(struct db *db, void *statement, bool *out_row)
{
	int code = sqlite3_step(statement);

	if (code != SQLITE_ROW && code != SQLITE_DONE)
		return sqlite_explain(of(db)->at, code, sqlite3_sql(statement));
	*out_row = code == SQLITE_ROW;
	return OK;
}

static uint64_t touched(struct db *db, void *statement)
{
	(void)statement;
	return (uint64_t)sqlite3_changes64(of(db)->at);
}

static bool sqlite_take_int(void *statement, int at, int64_t *out)
{
	if (sqlite3_column_type(statement, at) != SQLITE_INTEGER)
		return false;
	*out = sqlite3_column_int64(statement, at);
	return true;
}

static bool sqlite_take(void *statement, int at, struct str *out)
{
	switch (sqlite3_column_type(statement, at)) {
	case SQLITE_TEXT:
		out->at = (const char *)sqlite3_column_text(statement, at);
		break;
	case SQLITE_BLOB:
		out->at = sqlite3_column_blob(statement, at);
		break;
	case SQLITE_NULL:
		return true;
	default:
		return false;
	}
	out->len = (size_t)sqlite3_column_bytes(statement, at);
	if (!out->at)
		out->at = "";
	return true;
}

static fallible script(struct db *db, const char *sql)
{
	int code = sqlite3_exec(of(db)->at, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? OK : sqlite_explain(of(db)->at, code, sql);
}

static uint64_t ask_number(struct sqlite *lite, const char *pragma)
{
	sqlite3_stmt *statement = NULL;
	uint64_t number = 0;

	if (sqlite3_prepare_v2(lite->at, pragma, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		number = (uint64_t)sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return number;
}

static uint64_t bytes(struct db *db)
{
	return ask_number(of(db), "PRAGMA page_count") * ask_number(of(db), "PRAGMA page_size");
}

static fallible sqlite_check(struct db *db)
{
	sqlite3 *at = of(db)->at;
	sqlite3_stmt *statement = NULL;
	struct err *err = OK;
	int code;

	if (bytes(db) > CHECK_BYTES)
		return OK;
	code = sqlite3_prepare_v2(at, "PRAGMA quick_check(1)", -1, &statement, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (code != SQLITE_ROW)
		err = sqlite_explain(at, code, "check");
	else if (strcmp((const char *)sqlite3_column_text(statement, 0), "ok") != 0)
		err = db_corrupt();
	sqlite3_finalize(statement);
	return err;
}

static void close_db(struct db *db)
{
	struct sqlite *lite = of(db);

	for (int i = 0; i < lite->kept_count; i++)
		sqlite3_finalize(lite->kept[i].statement);
	sqlite3_close(lite->at);
	free(lite);
}

// The first read of the file shows whether it is a database.
static fallible sqlite_settle(struct sqlite *lite, enum mode mode)
{
	int keep = 1;

	sqlite3_extended_result_codes(lite->at, 1);
	sqlite3_busy_timeout(lite->at, BUSY_MS);
	sqlite3_db_config(lite->at, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(lite->at, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	TRY(script(&lite->db, "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;"));
	if (mode == BESIDE)
		return script(&lite->db, "PRAGMA query_only = ON; SELECT count(*) FROM "
					 "sqlite_master");
	if (mode == READING)
		return script(&lite->db, "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM"
					 " sqlite_master");
	TRY(script(&lite->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			      "PRAGMA journal_size_limit = 8388608"));
	// Keep the WAL file at close: it allows reading on a full or read-only file system.
	sqlite3_file_control(lite->at, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
	if (sqlite3_db_readonly(lite->at, "main"))
		return sqlite_explain(lite->at, SQLITE_READONLY, "open for writing");
	return script(&lite->db, "BEGIN IMMEDIATE; ROLLBACK");
}

static fallible open_as(const char *uri, int flags, const char *vfs, enum mode mode,
			struct sqlite **out)
{
	struct sqlite *lite = mem_new_of(struct sqlite);
	struct err *err = OK;
	int code;

	lite->db = (struct db){.driver = &sqlite_driver, .read_only = mode != WRITING};
	code = sqlite3_open_v2(uri, &lite->at, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, vfs);
	if (code != SQLITE_OK)
		err = sqlite_explain(lite->at, code, "open");
	else
		err = sqlite_settle(lite, mode);
	if (err) {
		close_db(&lite->db);
		return err;
	}
	*out = lite;
	return OK;
}

// Without a WAL the file is complete: open it immutable.
static fallible open_for_reading(int dir, const char *name, const char *path, struct sqlite **out)
{
	char uri[PATH_ROOM + 32], journal[PATH_ROOM];
	struct stat at;
	bool alone;

	snprintf(journal, sizeof(journal), "%s-wal", name);
	alone = fstatat(dir, journal, &at, AT_SYMLINK_NOFOLLOW) != 0 || at.st_size == 0;
	snprintf(uri, sizeof(uri), "file:%s%s", path, alone ? "?immutable=1" : "");
	return open_as(uri, SQLITE_OPEN_READONLY, "unix-none", READING, out);
}

static bool has_spare_room(int dir)
{
	struct statvfs at;

	return fstatvfs(dir, &at) == 0 && (uint64_t)at.f_bavail * at.f_frsize > SPARE_BYTES;
}

// Overwriting the WAL is cheaper than growing it: growth allocates blocks and syncs the file size
// with each commit. So it is preallocated with zeros, which are no valid WAL to SQLite. If that
// fails it grows.
static void lay_journal(struct sqlite *lite)
{
	static const char zeros[64 << 10];
	sqlite3_file *file = NULL;
	sqlite3_int64 size = 0;
	int code;

	code = sqlite3_file_control(lite->at, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
	if (code != SQLITE_OK || !file || !file->pMethods ||
	    file->pMethods->xFileSize(file, &size) != SQLITE_OK || size != 0)
		return;
	for (; code == SQLITE_OK && size < JOURNAL_BYTES; size += (sqlite3_int64)sizeof(zeros))
		code = file->pMethods->xWrite(file, zeros, sizeof(zeros), size);
	if (code == SQLITE_OK)
		code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
	if (code != SQLITE_OK)
		file->pMethods->xTruncate(file, 0);
}

static fallible sqlite_open(int dir, const char *name, struct db **out)
{
	struct sqlite *lite = NULL;
	char path[PATH_ROOM];
	struct err *err;

	sqlite_files_lead();
	if (dir < 0)
		snprintf(path, sizeof(path), ":memory:");
	else
		sqlite_files_path(dir, name, path, sizeof(path));
	err = open_as(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL, WRITING, &lite);
	if (db_is_unwritable(err) && dir >= 0 && faccessat(dir, name, F_OK, 0) == 0) {
		err_free(err);
		err = open_for_reading(dir, name, path, &lite);
	}
	TRY(err, "open the state");
	if (dir >= 0 && !lite->db.read_only && has_spare_room(dir))
		lay_journal(lite);
	*out = &lite->db;
	return OK;
}

static fallible open_beside(int dir, const char *name, struct db **out)
{
	struct sqlite *lite = NULL;
	char path[PATH_ROOM];

	if (dir < 0)
		return err_new(UNAVAILABLE, DB_UNWRITABLE, "what is in memory has one connection");
	sqlite_files_path(dir, name, path, sizeof(path));
	TRY(open_as(path, SQLITE_OPEN_READWRITE, NULL, BESIDE, &lite));
	*out = &lite->db;
	return OK;
}

const struct db_driver sqlite_driver = {
	.word = "sqlite",
	.open = sqlite_open,
	.open_beside = open_beside,
	.check = sqlite_check,
	.prepare = sqlite_prepare,
	.release = sqlite_release,
	.put_int = put_int,
	.put_text = put_text,
	.put_bytes = put_bytes,
	.step = sqlite_step,
	.touched = touched,
	.take_int = sqlite_take_int,
	.take = sqlite_take,
	.script = script,
	.bytes = bytes,
	.close = close_db,
};
