// Installs the CA certificate in three places for three kinds of programs, and in the stores of
// Java and NSS: a file in the directory that update-ca-certificates reads; the end of the bundle;
// and the directory of hashed names. A marker line in the bundle makes a repeated install add
// nothing. A file worker writes as the box's own root inside the box: hostile contents harm only
// the box itself.
//
// syscalls: read pwrite64 lseek close
#include "manager/ca_install.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/exec.h"
#include "box/files.h"
#include "egress/egress.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "types/env_map.h"

// Bundles of other distributions, tried where Debian's file is missing.
static const char *const bundles[] = {
	CA_INSTALL_BUNDLE,
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};
#define BUNDLE_MAX (4u << 20)
#define PUT_MS 10000
#define JDKS_MAX 8
#define PATH_MAX_BYTES 256

struct bundle {
	const struct egress *egress;
	const char *id;
	int from, to;
	struct buf *pem, *text;
	char hash[EGRESS_HASH];
	struct err *err;
};

static void make(void *arg)
{
	struct bundle *bundle = arg;

	bundle->err = egress_authority(bundle->egress, bundle->id, bundle->pem, bundle->hash);
}

static void ca_install_read_all(void *arg)
{
	struct bundle *bundle = arg;
	ssize_t got = 1;

	while (got > 0) {
		char *room = buf_space(bundle->text, 64 * 1024);

		got = room ? read(bundle->from, room, 64 * 1024) : 0;
		if (got > 0)
			buf_grew(bundle->text, (size_t)got);
	}
}

static void ca_install_write_all(void *arg)
{
	struct bundle *bundle = arg;
	size_t done = 0;

	while (done < bundle->text->len) {
		ssize_t put = pwrite(bundle->to, bundle->text->at + done, bundle->text->len - done,
				     (off_t)done);

		if (put <= 0) {
			bundle->err = err_sys(errno, "write the bundle");
			return;
		}
		done += (size_t)put;
	}
}

static fallible run(struct bundle *bundle, void (*fn)(void *arg))
{
	offload_run(fn, bundle);
	return take_ptr(bundle->err);
}

static fallible write_bundle(const struct files *files, const char *path, struct bundle *bundle)
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	struct err *err;

	TRY(files_begin(files, path, FILEOP_PARENTS, 0644, &upload));
	bundle->to = files_upload_fd(upload);
	err = run(bundle, ca_install_write_all);
	if (err) {
		files_abort(upload);
		return err;
	}
	return files_commit(upload, files->deadline, &stat);
}

static fallible read_bundle(const struct files *files, struct bundle *bundle, int *out_fd)
{
	struct fileop_stat stat;
	struct err *err = OK;

	for (size_t i = 0; i < sizeof(bundles) / sizeof(*bundles); i++) {
		err_free(err);
		err = files_read(files, bundles[i], bundle->text, out_fd, &stat);
		if (!err || err_kind(err) != ERR_NOT_FOUND)
			return err;
	}
	return err;
}

// A box without a bundle trusted nothing: it gets a bundle of this certificate alone.
static fallible add_to_bundle(const struct files *files, struct bundle *bundle)
{
	auto_free char *mark = mem_fmt("# cove: the authority of %s\n", bundle->id);
	auto_closer_fd fd = -1;
	auto_err err = read_bundle(files, bundle, &fd);

	if (err && err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	bundle->from = fd;
	if (fd >= 0)
		offload_run(ca_install_read_all, bundle);
	if (buf_ok(bundle->text) && memmem(bundle->text->at, bundle->text->len, mark, strlen(mark)))
		return OK;
	buf_add(bundle->text, mark, strlen(mark));
	buf_add(bundle->text, bundle->pem->at, bundle->pem->len);
	if (!buf_ok(bundle->text))
		return err_new(TOO_LARGE, "file_too_large",
			       "the sandbox's certificate bundle is too large");
	return write_bundle(files, CA_INSTALL_BUNDLE, bundle);
}

// ----------------------------------------------------------------------------------------- Java

struct keystore {
	struct bundle bundle; // the file's old text, then the new text
	struct buf *fresh;
};

static void keystore_make(void *arg)
{
	struct keystore *keystore = arg;
	struct bundle *bundle = &keystore->bundle;

	if (bundle->from >= 0)
		ca_install_read_all(bundle);
	bundle->err = egress_keystore(bundle->egress, bundle->id, buf_view(bundle->text),
				      keystore->fresh);
}

// A keystore that is missing, or in another format, is left alone.
static fallible keystore_put(struct entry *entry, const struct files *files, const char *path)
{
	auto_buf text = BUF_INIT(BUNDLE_MAX), fresh = BUF_INIT(BUNDLE_MAX);
	struct keystore keystore = {
		.bundle = {.egress = entry->manager->egress, .id = entry->record.id, .text = &text},
		.fresh = &fresh,
	};
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	auto_err err = files_read(files, path, &text, &fd, &stat);

	if (err)
		return err_kind(err) == ERR_NOT_FOUND ? OK : take_ptr(err);
	keystore.bundle.from = fd;
	offload_run(keystore_make, &keystore);
	err = take_ptr(keystore.bundle.err);
	if (err)
		return err_kind(err) == ERR_INVALID ? OK : take_ptr(err);
	if (!fresh.len)
		return OK;
	keystore.bundle.text = &fresh;
	return write_bundle(files, path, &keystore.bundle);
}

// Every JDK beneath a directory.
static fallible keystores_put(struct entry *entry, const struct files *files, const char *at)
{
	char paths[JDKS_MAX][PATH_MAX_BYTES];
	struct files_walk *walk = NULL;
	struct fileop_entry one;
	size_t count = 0;
	bool more = true;
	auto_err err = files_list(files, at, 0, JDKS_MAX, &walk);

	while (!err && more && count < JDKS_MAX) {
		err = files_next_entry(walk, &one, &more);
		if (!err && more && one.path.len < PATH_MAX_BYTES - 64)
			snprintf(paths[count++], PATH_MAX_BYTES,
				 "%s/" STR_FMT "/lib/security/cacerts", at, STR_ARG(one.path));
	}
	files_drop(walk);
	for (size_t i = 0; i < count; i++)
		TRY(keystore_put(entry, files, paths[i]));
	return OK;
}

static fallible java_put(struct entry *entry, const struct files *files)
{
	static const char *const stores[] = {
		"/etc/ssl/certs/java/cacerts",		  // Debian
		"/etc/pki/java/cacerts",		  // Fedora
		"/opt/java/openjdk/lib/security/cacerts", // Temurin's images
	};
	const char *home = env_map_get(&entry->record.env, STR("JAVA_HOME"));

	for (size_t i = 0; i < sizeof(stores) / sizeof(*stores); i++)
		TRY(keystore_put(entry, files, stores[i]));
	if (home) {
		auto_free char *path = mem_fmt("%s/lib/security/cacerts", home);

		TRY(keystore_put(entry, files, path));
	}
	return keystores_put(entry, files, "/usr/lib/jvm");
}

// ------------------------------------------------------------------------------------------ NSS

// An NSS database is an SQLite file with its own schema: the box's certutil writes it. A template
// without certutil gets no entry.
static fallible nss_put(struct entry *entry, const struct files *files, const char *at)
{
	auto_free char *probe = mem_fmt("%s/cert9.db", at);
	auto_free char *where = mem_fmt("sql:%s", at);
	auto_free char *alias = mem_fmt("cove-%s", entry->record.id);
	const char *const argv[] = {"certutil", "-A",	     "-d",  where, "-t",
				    "C,,",	"-n",	     alias, "-i",  CA_INSTALL_PATH,
				    "-f",	"/dev/null", NULL};
	const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
	struct exec_spec spec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.output_cap = 4096,
		.wall_ms = PUT_MS,
	};
	struct exec_result result;
	struct exec *exec = NULL;
	bool is_there = false;
	struct err *err;

	TRY(files_exists(files, probe, &is_there));
	if (!is_there)
		return OK;
	err = exec_start(entry->box, &spec, &exec);
	if (err && err_kind(err) == ERR_NOT_FOUND)
		err_free(take_ptr(err));
	if (err || !exec)
		return err;
	err = exec_wait(exec, files->deadline, &result);
	exec_unref(exec);
	return err;
}

void ca_install_set_env(struct env_map *env)
{
	static const char *const names[] = {"SSL_CERT_FILE",  "REQUESTS_CA_BUNDLE",
					    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
					    "PIP_CERT",	      "AWS_CA_BUNDLE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		env_map_set(env, str_of(names[i]), STR(CA_INSTALL_BUNDLE));
	// Node adds these certificates to its built-in ones.
	env_map_set(env, STR("NODE_EXTRA_CA_CERTS"), STR(CA_INSTALL_PATH));
}

static fallible manager_ca_install_put(struct entry *entry, const struct files *files)
{
	auto_buf pem = BUF_INIT(16 * 1024), text = BUF_INIT(BUNDLE_MAX);
	struct bundle bundle = {.egress = entry->manager->egress,
				.id = entry->record.id,
				.pem = &pem,
				.text = &text};
	char hashed[48];

	TRY(run(&bundle, make));
	TRY(files_write(files, CA_INSTALL_PATH, FILEOP_PARENTS, 0644, buf_view(&pem)));
	snprintf(hashed, sizeof(hashed), "/etc/ssl/certs/%s.0", bundle.hash);
	TRY(files_write(files, hashed, FILEOP_PARENTS, 0644, buf_view(&pem)));
	return add_to_bundle(files, &bundle);
}

void ca_install_put(struct entry *entry)
{
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->manager->loop) + PUT_MS,
	};
	auto_err err = OK;

	if (entry->has_ca || !entry->record.network || !policy_sees(entry->record.network))
		return;
	err = manager_ca_install_put(entry, &files);
	if (!err)
		err = java_put(entry, &files);
	if (!err)
		err = nss_put(entry, &files, "/root/.pki/nssdb");
	if (!err)
		err = nss_put(entry, &files, "/etc/pki/nssdb");
	entry->has_ca = !err;
	if (err)
		log_event(LOG_WARN, "egress.no_trust", "sandbox", entry->record.id, "reason",
			  err_reason(err), "trail", err_trail(err), NULL);
}
