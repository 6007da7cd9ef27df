// A pull is a task that reads top to bottom: manifest, configuration, layers, name. Three tasks
// fetch layers into files of the daemon, hashing them as they come; the pull's own task gives each
// whole file to the warden, whose jail unpacks it, and checks it against its diff id. Nothing has a
// name before everything holds.
//
// syscalls: openat pread64 pwrite64 fstat unlinkat close ftruncate getdents64 lseek
#include "manager/pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "manager/access.h"
#include "manager/account.h"
#include "manager/registry_logins.h"
#include "types/image.h"
#include "types/launch.h"

#define AT_ONCE 3
#define PIECE (256 * 1024)
#define MANIFEST_TRIES 3
#define PULLS_OF_TENANT 8
#define FILE_NAME 128

struct pull {
	struct manager *manager;
	struct operation *operation;
	struct registry *registry;
	struct reference reference;
	struct platform platform;
	struct manifest manifest;
	struct manifest_config config;
	struct manifest_blob top; // what the reference resolved to
	struct pulled_part *parts;
	size_t first; // layers before it are there
	size_t next;  // to fetch
	struct task *tasks[AT_ONCE];
	uint32_t running;
	struct err *err; // of a fetch
	struct condition changed;
};

static fallible settings_of(const struct manager *manager, const struct pull_settings **out)
{
	TRY(pulled_ready(manager));
	if (!manager->pull)
		return err_new(NOT_OFFERED, "no_network", "images cannot be pulled here");
	*out = manager->pull;
	return OK;
}

// --------------------------------------------------------------------------------------- documents

static void document_digest(struct str text, char out[REFERENCE_DIGEST + 1])
{
	uint8_t sum[SECRET_HASH];

	secret_sha256(text.at, text.len, sum);
	memcpy(out, "sha256:", 7);
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(out + 7 + 2 * i, 3, "%02x", sum[i]);
}

static fallible mismatch(const char *what, const char *digest)
{
	return err_hint(err_new(INVALID, "digest_mismatch",
				"the registry sent a %s that does not match its digest %s", what,
				digest),
			"the registry, or something on the way, changes what it sends");
}

// A document of that name; its digest is computed, and compared if it was asked by digest.
static fallible pull_document(struct pull *pull, const char *kind, const char *name, uint64_t size,
			      struct buf *text, struct str *out_type, struct fetch **out_fetch)
{
	char digest[REFERENCE_DIGEST + 1];

	TRY(registry_get(pull->registry, kind, name, 0, MANIFEST_TRIES, out_fetch));
	TRY(registry_read(*out_fetch, MANIFEST_BYTES_MAX, text));
	buf_text(text, "");
	document_digest(buf_view(text), digest);
	if (!weak(DIGEST) && reference_is_digest(str_of(name)) &&
	    (strcmp(digest, name) != 0 || (size && size != text->len)))
		return mismatch("document", name);
	*out_type = fetch_field(*out_fetch, "Content-Type");
	if (!pull->top.digest[0])
		memcpy(pull->top.digest, digest, sizeof(digest));
	return OK;
}

static fallible pull_manifest(struct pull *pull)
{
	char name[REFERENCE_DIGEST + 64];
	uint64_t size = 0;

	snprintf(name, sizeof(name), "%s",
		 pull->reference.digest[0] ? pull->reference.digest : pull->reference.tag);
	for (int depth = 0; depth <= MANIFEST_DEPTH; depth++) {
		auto_buf text = BUF_INIT(MANIFEST_BYTES_MAX + 1);
		auto_fetch fetch = NULL;
		struct str type = {0};

		TRY(pull_document(pull, "manifests", name, size, &text, &type, &fetch));
		TRY(manifest_read(buf_view(&text), type, &pull->platform, &pull->manifest));
		if (!pull->manifest.next.digest[0])
			return OK;
		snprintf(name, sizeof(name), "%s", pull->manifest.next.digest);
		size = pull->manifest.next.size;
		manifest_done(&pull->manifest);
	}
	return err_new(INVALID, "bad_media_type", "the image's indexes are nested too deeply");
}

static fallible pull_config(struct pull *pull)
{
	auto_buf text = BUF_INIT(MANIFEST_BYTES_MAX + 1);
	const struct manifest_blob *blob = &pull->manifest.config;
	auto_fetch fetch = NULL;
	struct str type = {0};

	TRY(pull_document(pull, "blobs", blob->digest, blob->size, &text, &type, &fetch));
	return manifest_config_read(buf_view(&text), pull->manifest.count, &pull->platform,
				    &pull->config);
}

// ------------------------------------------------------------------------------------------- blobs

// A file that receives a blob. Its hash goes on where an earlier try, or daemon, has ended.
struct blob {
	int dir, fd, error;
	char name[FILE_NAME];
	uint64_t bytes; // written and hashed
	EVP_MD_CTX *hash;
	char *room;
	size_t len; // of room, to be written
	char digest[REFERENCE_DIGEST + 1];
};

static void blob_name(const struct operation *operation, const char *digest, char out[FILE_NAME])
{
	snprintf(out, FILE_NAME, "%s.%s", operation->id, digest + strlen("sha256:"));
}

// In a worker: opens the file, and hashes what it has.
static void blob_open(void *arg)
{
	struct blob *blob = arg;
	ssize_t got;

	blob->fd = openat(blob->dir, blob->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	blob->error = errno;
	blob->hash = EVP_MD_CTX_new();
	if (blob->fd < 0 || !blob->hash || EVP_DigestInit_ex(blob->hash, EVP_sha256(), NULL) != 1)
		return;
	while ((got = pread(blob->fd, blob->room, PIECE, (off_t)blob->bytes)) > 0) {
		EVP_DigestUpdate(blob->hash, blob->room, (size_t)got);
		blob->bytes += (uint64_t)got;
	}
	blob->error = got < 0 ? errno : 0;
}

static void blob_write(void *arg)
{
	struct blob *blob = arg;
	size_t done = 0;

	EVP_DigestUpdate(blob->hash, blob->room, blob->len);
	blob->error = 0;
	while (done < blob->len) {
		ssize_t put = pwrite(blob->fd, blob->room + done, blob->len - done,
				     (off_t)(blob->bytes + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			blob->error = put ? errno : EIO;
			return;
		}
		done += (size_t)put;
	}
	blob->bytes += done;
}

static void blob_finish(void *arg)
{
	struct blob *blob = arg;
	uint8_t sum[SECRET_HASH];

	EVP_DigestFinal_ex(blob->hash, sum, NULL);
	memcpy(blob->digest, "sha256:", 7);
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(blob->digest + 7 + 2 * i, 3, "%02x", sum[i]);
}

static void blob_remove(void *arg)
{
	struct blob *blob = arg;

	unlinkat(blob->dir, blob->name, 0);
}

static void blob_done(struct blob *blob)
{
	closer_drop(&blob->fd);
	EVP_MD_CTX_free(blob->hash);
	free(blob->room);
}

static fallible blob_explain(int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	return err_sys(errnum, "keep a part of an image");
}

static fallible bad_part(void)
{
	return err_new(BAD_PEER, "registry_unreachable",
		       "the registry sent another part of a layer than was asked for");
}

// "bytes FIRST-LAST/TOTAL": it must begin where we are, and TOTAL be the layer's size.
static fallible blob_check_range(struct str range, uint64_t from, uint64_t size)
{
	struct str rest = range, first, last;
	uint64_t begin, total;

	if (!str_starts(range, "bytes "))
		return bad_part();
	rest = str_skip(rest, 6);
	if (!str_cut(&rest, '-', &first) || !str_to_u64(first, 0, UINT64_MAX, &begin) ||
	    begin != from || !str_cut(&rest, '/', &last))
		return bad_part();
	if (!str_is(rest, "*") && (!str_to_u64(rest, 0, UINT64_MAX, &total) || total != size))
		return bad_part();
	return OK;
}

// Reads the body into the file, to the layer's size. `skip`: bytes that the file has already.
static fallible blob_receive(struct fetch *fetch, struct blob *blob, uint64_t skip,
			     const struct manifest_blob *want, struct operation *operation,
			     struct operation_layer *layer)
{
	for (;;) {
		size_t got = 0;

		TRY(fetch_read(fetch, blob->room, PIECE, &got));
		if (!got)
			return OK;
		if (skip) {
			size_t cut = skip < got ? (size_t)skip : got;

			memmove(blob->room, blob->room + cut, got - cut);
			skip -= cut;
			got -= cut;
		}
		if (blob->bytes + got > want->size)
			return mismatch("longer layer", want->digest);
		if (!got)
			continue;
		blob->len = got;
		offload_run(blob_write, blob);
		if (blob->error)
			return blob_explain(blob->error);
		layer->bytes = blob->bytes;
		operation_changed(operation);
	}
}

static fallible blob_fetch_once(struct pull *pull, struct blob *blob,
				const struct manifest_blob *want, struct operation_layer *layer)
{
	auto_fetch fetch = NULL;
	uint64_t skip = 0;

	if (blob->bytes == want->size)
		return OK;
	TRY(registry_get(pull->registry, "blobs", want->digest, blob->bytes, 1, &fetch));
	if (fetch_status(fetch) == 206)
		TRY(blob_check_range(fetch_field(fetch, "Content-Range"), blob->bytes, want->size));
	else if (fetch_head(fetch)->has_length && fetch_head(fetch)->length != want->size)
		return mismatch("layer of another size", want->digest);
	else
		skip = blob->bytes;
	TRY(blob_receive(fetch, blob, skip, want, pull->operation, layer));
	if (blob->bytes != want->size)
		return err_new(BAD_PEER, "registry_unreachable",
			       "the registry ended the transfer of a layer too early");
	return OK;
}

// Tries again while it may help; progress resets the count.
static fallible blob_fetch(struct pull *pull, struct blob *blob, const struct manifest_blob *want,
			   struct operation_layer *layer)
{
	for (int attempt = 0;; attempt++) {
		uint64_t before = blob->bytes;
		struct err *err = blob_fetch_once(pull, blob, want, layer);

		if (blob->bytes > before)
			attempt = 0;
		if (!err || attempt + 1 >= REGISTRY_TRIES || !registry_may_pass(err))
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(pull->manager->loop) + registry_pause_ms(attempt)));
	}
}

static fallible layer_fetch(struct pull *pull, size_t at)
{
	struct operation_layer *layer = &pull->operation->layers[at];
	const struct manifest_blob *want = &pull->manifest.layers[at];
	on_exit_call(blob_done) struct blob blob = {
		.dir = pull->manager->pull->blobs, .fd = -1, .room = mem_new(PIECE)};

	blob_name(pull->operation, want->digest, blob.name);
	layer->state = "fetching";
	offload_run(blob_open, &blob);
	if (blob.fd < 0 || blob.error)
		return blob_explain(blob.error);
	layer->bytes = blob.bytes;
	operation_changed(pull->operation);
	TRY(blob_fetch(pull, &blob, want, layer));
	offload_run(blob_finish, &blob);
	if (!weak(DIGEST) && strcmp(blob.digest, want->digest) != 0) {
		offload_run(blob_remove, &blob);
		return mismatch("layer", want->digest);
	}
	layer->state = "fetched";
	operation_changed(pull->operation);
	return OK;
}

static bool layer_is_twice(const struct pull *pull, size_t at)
{
	for (size_t i = pull->first; i < at; i++)
		if (!strcmp(pull->manifest.layers[i].digest, pull->manifest.layers[at].digest))
			return true;
	return false;
}

static void pull_fetch_layers(void *arg)
{
	struct pull *pull = arg;

	while (!pull->err && pull->next < pull->manifest.count) {
		size_t at = pull->next++;
		struct err *err = OK;

		if (layer_is_twice(pull, at)) // the file of the first one serves
			pull->operation->layers[at].state = "fetched";
		else
			err = layer_fetch(pull, at);
		if (err && pull->err)
			err_free(err);
		else if (err)
			pull->err = err;
		condition_signal(&pull->changed);
	}
	for (size_t i = 0; i < AT_ONCE; i++)
		if (pull->tasks[i] == task_current())
			pull->tasks[i] = NULL;
	pull->running--;
	condition_signal(&pull->changed);
}

static void pull_stop_fetching(struct pull *pull)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (pull->tasks[i])
			task_cancel(pull->tasks[i]);
	while (pull->running)
		condition_await(&pull->changed);
}

// ------------------------------------------------------------------------------------------ layers

struct opening {
	int dir, fd, error;
	const char *name;
};

static void blob_open_again(void *arg)
{
	struct opening *opening = arg;

	opening->fd = openat(opening->dir, opening->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	opening->error = errno;
}

// A blob that occurs twice is fetched once.
static bool layer_is_fetched(const struct pull *pull, size_t at)
{
	size_t first = pull->first;

	while (strcmp(pull->manifest.layers[first].digest, pull->manifest.layers[at].digest) != 0)
		first++;
	return strcmp(pull->operation->layers[first].state, "waiting") != 0 &&
	       strcmp(pull->operation->layers[first].state, "fetching") != 0;
}

static fallible layer_apply(struct pull *pull, size_t at)
{
	struct operation_layer *layer = &pull->operation->layers[at];
	const struct pulled_part *part = &pull->parts[at];
	char name[FILE_NAME];
	struct opening opening = {.dir = pull->manager->pull->blobs, .fd = -1, .name = name};

	while (!pull->err && !layer_is_fetched(pull, at))
		TRY(condition_wait(&pull->changed, CLOCK_NEVER));
	if (pull->err)
		return take_ptr(pull->err);
	layer->bytes = layer->total;
	layer->state = "unpacking";
	pull->operation->phase = "unpack";
	operation_changed(pull->operation);
	blob_name(pull->operation, part->blob.digest, name);
	offload_run(blob_open_again, &opening);
	auto_closer_fd fd = opening.fd;

	if (fd < 0)
		return blob_explain(opening.error);
	kill_point("daemon.layer_ordered", "layer");
	TRY(pulled_make_layer(pull->manager, part->layer, at ? pull->parts[at - 1].layer : "",
			      part->diff_id, take_fd(&fd)));
	layer->state = "done";
	operation_changed(pull->operation);
	return OK;
}

struct leftover {
	int dir;
	const char *id; // of the operation
};

// In a worker: removes the files of an operation.
static void blobs_remove(void *arg)
{
	const struct leftover *leftover = arg;
	int fd = openat(leftover->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		if (str_starts(str_of(entry->d_name), leftover->id))
			unlinkat(leftover->dir, entry->d_name, 0);
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);
}

static void pull_remove_blobs(const struct pull *pull)
{
	offload_run(blobs_remove, &(struct leftover){.dir = pull->manager->pull->blobs,
						     .id = pull->operation->id});
}

// Chain ids, the progress of each layer, and which of them are there.
static void pull_plan(struct pull *pull)
{
	struct operation *operation = pull->operation;
	char chain[REFERENCE_DIGEST + 1], parent[REFERENCE_DIGEST + 1] = "";
	size_t count = pull->manifest.count;

	pull->parts = mem_new(count * sizeof(*pull->parts));
	free(operation->layers);
	operation->layers = mem_new(count * sizeof(*operation->layers));
	operation->layer_count = count;
	for (size_t i = 0; i < count; i++) {
		struct pulled_part *part = &pull->parts[i];
		const struct pulled_layer *layer;

		part->blob = pull->manifest.layers[i];
		memcpy(part->diff_id, pull->config.diff_ids[i], sizeof(part->diff_id));
		pulled_chain(i ? parent : NULL, part->diff_id, chain);
		memcpy(parent, chain, sizeof(chain));
		pulled_layer_name(operation->tenant, chain, part->layer);
		pulled_hold(pull->manager, operation->tenant, part->layer, true);
		layer = pulled_layer(pull->manager, part->layer);
		memcpy(operation->layers[i].digest, part->blob.digest, sizeof(part->blob.digest));
		operation->layers[i].total = part->blob.size;
		operation->layers[i].state = "waiting";
		if (layer->is_ready && pull->first == i) {
			pull->first = i + 1;
			operation->layers[i].state = "present";
			operation->layers[i].bytes = part->blob.size;
		}
	}
	pull->next = pull->first;
	operation_changed(operation);
}

static fallible pull_ask_room(const struct pull *pull)
{
	const struct pull_settings *settings = pull->manager->pull;
	struct account *account = accounts_get(&pull->manager->accounts, pull->operation->tenant);
	uint64_t sum = 0;

	for (size_t i = pull->first; i < pull->manifest.count; i++)
		sum += pull->manifest.layers[i].size;
	if (sum > settings->image_max)
		return err_hint(err_new(TOO_LARGE, "archive_too_large",
					"the image has %llu MiB, packed; %llu MiB are allowed",
					(unsigned long long)(sum >> 20),
					(unsigned long long)(settings->image_max >> 20)),
				"the operator may raise image-max");
	return account_ask_disk(account, sum);
}

static fallible pull_make_layers(struct pull *pull)
{
	struct err *err = OK;

	memcpy(pull->operation->digest, pull->top.digest, sizeof(pull->top.digest));
	pull->operation->phase = "fetch";
	for (size_t i = 0; i < AT_ONCE && pull->next + i < pull->manifest.count; i++) {
		pull->running++;
		pull->tasks[i] = task_start(pull->manager->loop, "layer", pull_fetch_layers, pull);
	}
	for (size_t i = pull->first; !err && i < pull->manifest.count; i++) {
		uint64_t bytes;

		err = layer_apply(pull, i);
		bytes = err ? 0 : pulled_layer(pull->manager, pull->parts[i].layer)->bytes;
		if (!err && bytes > pull->manager->pull->image_max)
			err = err_new(TOO_LARGE, "archive_too_large",
				      "a layer has %llu MiB, unpacked",
				      (unsigned long long)(bytes >> 20));
		if (!err)
			err = account_ask_disk(
				accounts_get(&pull->manager->accounts, pull->operation->tenant),
				0); // layers are charged as they are made
	}
	pull_stop_fetching(pull);
	err_free(take_ptr(pull->err));
	return err;
}

// --------------------------------------------------------------------------------------------- all

static fallible pull_name(struct pull *pull)
{
	struct operation *operation = pull->operation;
	const struct pulled_image *old = pulled_find(pull->manager, operation->tenant,
						     str_of(operation->name));
	struct pulled_image *image = mem_new_of(struct pulled_image);
	auto_buf platform = BUF_INIT(64);
	struct err *err;

	platform_write(&pull->platform, &platform);
	*image = (struct pulled_image){
		.tenant = mem_str(operation->tenant),
		.name = mem_str(operation->name),
		.reference = mem_str(operation->reference),
		.digest = mem_str(pull->top.digest),
		.platform = buf_take(&platform),
		.image = mem_str(pull->config.image),
		.config = mem_str(pull->config.config),
		.parts = take_ptr(pull->parts),
		.count = pull->manifest.count,
		.is_cache = operation->is_cache && (!old || old->is_cache),
		.resolved_ms = clock_wall_ms(),
		.created_ms = old ? old->created_ms : clock_wall_ms(),
		.used_ms = old ? old->used_ms : 0,
	};
	operation->made = !old || strcmp(old->digest, image->digest) != 0;
	// Holds are by the parts.
	pull->parts = mem_new(image->count * sizeof(*pull->parts));
	memcpy(pull->parts, image->parts, image->count * sizeof(*pull->parts));
	kill_point("daemon.image_named", "image");
	err = pulled_put(pull->manager, image);
	if (err)
		pulled_image_free(image);
	return err;
}

// The stored credential for a registry or a mirror.
static fallible pull_find_credential(void *arg, const char *host, struct registry_credential *out)
{
	const struct pull *pull = arg;

	return registry_logins_find(pull->manager, pull->operation->tenant, host, out);
}

static fallible pull_all(struct pull *pull)
{
	struct operation *operation = pull->operation;

	if (operation->interrupted)
		return err_hint(err_new(UNAVAILABLE, "interrupted",
					"cove was restarted during the pull, and its credential "
					"is not stored"),
				"pull it again");
	TRY(reference_read(str_of(operation->reference), &pull->reference));
	TRY(platform_read(str_of(operation->platform), &pull->platform));
	pull->registry = registry_new(&(struct registry_options){
		.rules = {.loop = pull->manager->loop,
			  .outbound = &pull->manager->pull->outbound,
			  .insecure = pull->manager->pull->insecure,
			  .loopback = operation->by_operator},
		.mirrors = pull->manager->pull->mirrors,
		.reference = &pull->reference,
		.credential = operation->has_credential ? &operation->credential : NULL,
		.find = pull_find_credential,
		.arg = pull,
	});
	operation->phase = "resolve";
	operation_changed(operation);
	TRY(pull_manifest(pull), "read the manifest");
	TRY(pull_config(pull), "read the configuration");
	pull_plan(pull);
	TRY(pull_ask_room(pull));
	TRY(pull_make_layers(pull));
	return pull_name(pull);
}

static void pull_publish(const struct pull *pull, const struct err *err)
{
	const struct operation *operation = pull->operation;

	if (err) {
		log_event(LOG_WARN, "image.refused", "operation", operation->id, "image",
			  operation->reference, "reason", err_reason(err), "trail", err_trail(err),
			  NULL);
		return;
	}
	log_event(LOG_INFO, "image.pulled", "operation", operation->id, "image",
		  operation->reference, "digest", pull->top.digest, NULL);
	event_publish(EVENT_IMAGE_PULLED, "tenant", operation->tenant, "image",
		      operation->reference, "digest", pull->top.digest, "template", operation->name,
		      NULL);
	if (operation->made)
		event_publish(EVENT_TEMPLATE_MADE, "tenant", operation->tenant, "template",
			      operation->name, NULL);
}

static void pull_run(void *arg)
{
	struct operation *operation = arg;
	struct pull *pull = mem_new_of(struct pull);
	struct err *err;

	pull->manager = operation->manager;
	pull->operation = operation;
	condition_init(&pull->changed);
	operation->state = OPERATION_RUNNING;
	err = pull_all(pull);
	// Stopped by the end of the daemon: the next one goes on with what is there.
	task_shield(true);
	pull_publish(pull, err);
	pull_remove_blobs(pull);
	for (size_t i = 0; pull->parts && i < pull->manifest.count; i++)
		pulled_hold(pull->manager, operation->tenant, pull->parts[i].layer, false);
	operations_end(pull->manager, operation, err);
	registry_free(pull->registry);
	manifest_done(&pull->manifest);
	manifest_config_done(&pull->config);
	free(pull->parts);
	free(pull);
}

static void pull_start(struct operation *operation)
{
	operation->task = task_start(operation->manager->loop, "pull", pull_run, operation);
}

void pull_resume(struct manager *manager)
{
	struct operation *operation;

	auto_err unknown = pulled_ready(manager);

	if (!manager->pull || unknown)
		return;
	for (size_t at = 0; operations_next(manager, &at, &operation);) {
		if (operation->kind != OPERATION_PULL || operation->state != OPERATION_QUEUED ||
		    !operation->earlier || operation->task)
			continue;
		operation->manager = manager;
		if (operation->has_credential)
			operation->interrupted = true;
		pull_start(operation);
	}
}

// --------------------------------------------------------------------------------------------
// begin

static fallible pull_ask_image(struct manager *manager, const struct who *who,
			       const struct reference *image)
{
	const struct account *account = accounts_find(&manager->accounts, str_of(who->tenant));

	if (!who->tenant[0] || !account || tenant_may_pull(&account->tenant, image) ||
	    weak(TENANTS))
		return OK;
	return err_hint(err_new(FORBIDDEN, "image_not_allowed", "this tenant may not pull %s/%s",
				image->host, image->path),
			"the operator lists what it may pull: cove tenant set --image PATTERN");
}

// One of the same image under way, whose credential is as ours: none.
static struct operation *pull_joins(struct manager *manager, const struct operation *like)
{
	struct operation *operation;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		if (operation->kind == OPERATION_PULL && !operation_has_ended(operation) &&
		    !operation->cancelled && !operation->has_credential && !like->has_credential &&
		    operation->by_operator == like->by_operator &&
		    !strcmp(operation->tenant, like->tenant) &&
		    !strcmp(operation->reference, like->reference) &&
		    !strcmp(operation->platform, like->platform) &&
		    !strcmp(operation->name, like->name))
			return operation;
	return NULL;
}

static uint32_t pulls_of(const struct manager *manager, const char *tenant)
{
	struct operation *operation;
	uint32_t count = 0;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		count += operation->kind == OPERATION_PULL && !operation_has_ended(operation) &&
			 !strcmp(operation->tenant, tenant);
	return count;
}

static fallible pull_check_name(struct manager *manager, const struct operation *operation)
{
	const struct pulled_image *image = pulled_find(manager, operation->tenant,
						       str_of(operation->name));

	if (!id_is_template(str_of(operation->name)) ||
	    strlen(operation->name) + strlen(operation->tenant) + 1 >= TEMPLATE_NAME_MAX)
		return err_hint(err_new(INVALID, "bad_template", "'%.80s' is not a template's name",
					operation->name),
				"choose one with --name: 1 to 63 of a-z, 0-9 and ._-");
	if (!strcmp(operation->name, "host"))
		return err_hint(err_new(CONFLICT, "template_reserved",
					"the template 'host' is this machine's own"),
				"choose another name");
	if (image && strcmp(image->reference, operation->reference) != 0)
		return err_hint(err_new(CONFLICT, "template_exists",
					"the template '%s' is another image: %s", operation->name,
					image->reference),
				"choose another name with --name, or remove that one first");
	return OK;
}

fallible pull_begin(struct manager *manager, const struct who *who, struct pull_ask *ask,
		    struct operation **out)
{
	const struct pull_settings *settings = NULL;
	auto_buf text = BUF_INIT(REFERENCE_MAX), name = BUF_INIT(REFERENCE_MAX);
	struct reference reference;
	struct platform platform;
	struct operation *operation, *other = NULL;
	struct err *err;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(settings_of(manager, &settings));
	TRY(reference_read(ask->image, &reference));
	if (!ask->is_allowed)
		TRY(pull_ask_image(manager, who, &reference));
	TRY(platform_read(ask->platform, &platform));
	reference_write(&reference, &text);
	if (ask->name.len)
		buf_str(&name, ask->name);
	else
		reference_template(&reference, &name);
	buf_text(&name, "");
	operation = mem_new_of(struct operation);
	operation->manager = manager;
	operation->reference = buf_take(&text);
	operation->name = buf_take(&name);
	operation->platform = mem_dup(ask->platform.at ? ask->platform.at : "", ask->platform.len);
	operation->is_cache = ask->is_cache;
	operation->by_operator = who->role == WHO_OPERATOR;
	snprintf(operation->tenant, sizeof(operation->tenant), "%s", who->tenant);
	if (ask->credential) {
		operation->has_credential = true;
		operation->credential = *ask->credential;
		*ask->credential = (struct registry_credential){0};
	}
	err = pull_check_name(manager, operation);
	if (!err && !(other = pull_joins(manager, operation)) &&
	    pulls_of(manager, who->tenant) >= PULLS_OF_TENANT)
		err = err_hint(err_new(EXHAUSTED, "too_many_imports",
				       "%d images are being pulled already", PULLS_OF_TENANT),
			       "wait until one of them is done");
	if (err || other) {
		operation_free(operation);
		TRY(err);
		other->holds++;
		*out = other;
		return OK;
	}
	TRY(operations_add(manager, operation));
	operation->holds++;
	if (operation->cancelled) // before it had a task
		operations_end(manager, operation, err_new(CANCELLED, "cancelled", "cancelled"));
	else
		pull_start(operation);
	*out = operation;
	return OK;
}

// -------------------------------------------------------------------------------------------
// create

static fallible never_pulled(const char *reference)
{
	return err_hint(err_new(NOT_FOUND, "no_image", "the image %s was not pulled", reference),
			"cove template pull %s", reference);
}

fallible pull_allowed(struct manager *manager, const struct who *who, struct str image)
{
	struct reference reference;

	TRY(reference_read(image, &reference));
	return pull_ask_image(manager, who, &reference);
}

// The pull under way that has turned out to be of that digest; NULL: none.
static struct operation *pull_of_digest(struct manager *manager, const struct who *who,
					const char *reference)
{
	struct operation *operation;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		if (operation->kind == OPERATION_PULL && !operation_has_ended(operation) &&
		    !operation->cancelled && !operation->has_credential &&
		    !operation->platform[0] && operation->digest[0] &&
		    operation->by_operator == (who->role == WHO_OPERATOR) &&
		    !strcmp(operation->tenant, who->tenant) &&
		    pulled_is(operation->reference, operation->digest, reference))
			return operation;
	return NULL;
}

// The image, if it is there, else a pull of it, which the caller drops.
static fallible pull_seek(struct manager *manager, const struct who *who,
			  const struct pull_want *want, struct pulled_image **out,
			  struct operation **out_operation)
{
	auto_buf text = BUF_INIT(REFERENCE_MAX), host = BUF_INIT(64);
	const struct pull_settings *settings = NULL;
	struct reference reference;
	struct platform platform;
	struct pull_ask ask = {
		.image = str_of(want->image), .is_cache = true, .is_allowed = want->is_pinned};

	TRY(settings_of(manager, &settings));
	TRY(reference_read(ask.image, &reference));
	if (!want->is_pinned)
		TRY(pull_ask_image(manager, who, &reference));
	reference_write(&reference, &text);
	platform_host(&platform);
	platform_write(&platform, &host);
	*out = pulled_reference(manager, who->tenant, text.at, host.at);
	if (*out && (want->pull != SPEC_PULL_ALWAYS || want->is_pinned))
		return OK;
	if (want->pull == SPEC_PULL_NEVER)
		return never_pulled(text.at);
	*out_operation = want->is_pinned ? pull_of_digest(manager, who, text.at) : NULL;
	if (*out_operation) {
		(*out_operation)->holds++;
		return OK;
	}
	if (*out)
		ask.name = str_of((*out)->name);
	*out = NULL;
	return pull_begin(manager, who, &ask, out_operation);
}

// Its image; waits for it.
static fallible pull_take(struct manager *manager, struct operation *operation, int64_t deadline,
			  struct pulled_image **out)
{
	struct err *err = operation_await(operation, deadline);

	*out = err ? NULL : pulled_find(manager, operation->tenant, str_of(operation->name));
	if (!err && !*out)
		err = never_pulled(operation->reference);
	operation_drop(operation);
	return err;
}

fallible pull_look(struct manager *manager, const struct who *who, const char *image, bool always,
		   struct operation **out)
{
	const struct pull_want want = {(char *)image, always ? SPEC_PULL_ALWAYS : SPEC_PULL_MISSING,
				       false};
	struct pulled_image *found;

	*out = NULL;
	return pull_seek(manager, who, &want, &found, out);
}

// The image of the spec, or the operation that pulls it.
static fallible pull_for(struct manager *manager, const struct who *who, struct spec *spec,
			 struct pulled_image **out, struct operation **out_pull)
{
	const struct pull_want want = {spec->image, spec->pull, spec->image_allowed};

	TRY(pull_seek(manager, who, &want, out, out_pull));
	if (*out_pull)
		snprintf(spec->template, sizeof(spec->template), "%s", (*out_pull)->name);
	return OK;
}

int64_t pull_deadline(const struct manager *manager)
{
	return loop_now(manager->loop) + (manager->pull ? manager->pull->wait_ms : 0);
}

// `canonical`: the image's name, with a tag or a digest.
static void pull_pin(struct pull_want *want, const char *canonical, const char *digest)
{
	const char *tag = strrchr(canonical, ':');

	if (want->is_pinned || !digest[0])
		return;
	free(want->image);
	want->image = strchr(canonical, '@')
			      ? mem_str(canonical)
			      : mem_fmt("%.*s@%s", (int)(tag - canonical), canonical, digest);
	want->is_pinned = true;
}

fallible pull_wanted(struct manager *manager, const struct who *who, struct pull_want *want,
		     int64_t deadline)
{
	struct operation *operation = NULL;
	struct pulled_image *found;

	TRY(pull_seek(manager, who, want, &found, &operation));
	if (operation)
		TRY(pull_take(manager, operation, deadline, &found));
	pull_pin(want, found->reference, found->digest);
	pulled_touch(manager, found);
	return OK;
}

fallible pull_whole(struct manager *manager, const struct who *who, struct str image,
		    int64_t deadline)
{
	struct pull_want want = {.image = mem_dup(image.at, image.len)};
	struct err *err = pull_wanted(manager, who, &want, deadline);

	free(want.image);
	return err;
}

fallible pull_again(struct manager *manager, const char *tenant, struct str image)
{
	struct who who = WHO_COVE;

	if (tenant[0])
		who.role = WHO_TENANT;
	snprintf(who.tenant, sizeof(who.tenant), "%s", tenant);
	TRY(pulled_ready(manager));
	return pull_whole(manager, &who, image, pull_deadline(manager));
}

static bool pull_is_described(const struct operation *operation)
{
	return operation_has_ended(operation) || !strcmp(operation->phase, "fetch") ||
	       !strcmp(operation->phase, "unpack");
}

fallible pull_ahead(struct manager *manager, const struct who *who, struct pull_want *want,
		    int64_t deadline, bool *out_present)
{
	struct operation *operation = NULL;
	struct pulled_image *found;
	struct err *err = OK;

	TRY(pull_seek(manager, who, want, &found, &operation));
	while (!err && operation && !pull_is_described(operation))
		err = condition_wait(&operation->changed, deadline);
	if (err && err_kind(err) == ERR_TIMEOUT)
		err_free(take_ptr(err));
	*out_present = !err && (!operation || operation->state == OPERATION_SUCCEEDED);
	if (!err && operation && operation_has_ended(operation))
		err = operation_failure(operation);
	if (!err && operation)
		pull_pin(want, operation->reference, operation->digest);
	if (operation) {
		operation_drop(operation);
		return err;
	}
	pull_pin(want, found->reference, found->digest);
	pulled_touch(manager, found);
	return err;
}

// What an image decides of a sandbox, in its spec or its record.
struct image_target {
	struct env_map *env;
	char *user, *template, *root;
	char **workdir, **launch, **image;
};

// The image's settings that the create does not give.
static fallible image_configure(const struct pulled_image *image, struct image_target *to)
{
	auto_image config = {0};

	TRY(image_read(str_of(image->image), &config));
	for (size_t i = 0; i < config.env.count; i++)
		if (!env_map_get(to->env, str_of(config.env.at[i].name)))
			env_map_set(to->env, str_of(config.env.at[i].name),
				    str_of(config.env.at[i].value));
	if (!to->user[0])
		memcpy(to->user, config.user, sizeof(config.user));
	if (!*to->workdir && config.workdir[0])
		*to->workdir = mem_str(config.workdir);
	return launch_fill(to->launch, config.launch, config.argv);
}

static fallible image_fill(struct manager *manager, struct pulled_image *image,
			   struct image_target *to)
{
	struct platform host, platform;

	platform_host(&host);
	TRY(platform_read(str_of(image->platform), &platform));
	if (!platform_is_host(&platform))
		return err_hint(err_new(INVALID, "wrong_platform", "the image %s is for %s",
					image->reference, image->platform),
				"this host runs %s/%s; pull it without --platform", host.os,
				host.architecture);
	TRY(image_configure(image, to));
	snprintf(to->template, TEMPLATE_NAME_MAX, "%s", image->name);
	snprintf(to->root, TEMPLATE_NAME_MAX, "%s", image->parts[image->count - 1].layer);
	free(*to->image);
	*to->image = strchr(image->reference, '@')
			     ? mem_str(image->reference)
			     : mem_fmt("%s@%s", image->reference, image->digest);
	// Held until the create's record holds it: no wait lies between.
	pulled_touch(manager, image);
	return OK;
}

// An image of the operator's that the tenant may use is its own by that name.
static struct pulled_image *image_named(const struct manager *manager, const struct who *who,
					const char *name)
{
	struct pulled_image *image = pulled_find(manager, who->tenant, str_of(name));
	const struct account *account = accounts_find(&manager->accounts, str_of(who->tenant));

	if (image || !who->tenant[0] || !account)
		return image;
	for (size_t i = 0; i < account->tenant.template_count; i++)
		if (!strcmp(name, account->tenant.templates[i]))
			return pulled_find(manager, "", str_of(name));
	return account->tenant.all_templates ? pulled_find(manager, "", str_of(name)) : NULL;
}

fallible pull_fill(struct manager *manager, const struct who *who, struct spec *spec,
		   bool *out_found, struct operation **out_pull)
{
	struct image_target to = {
		.env = &spec->env,
		.user = spec->user,
		.template = spec->template,
		.root = spec->root,
		.workdir = &spec->workdir,
		.launch = &spec->launch,
		.image = &spec->image_digest,
	};
	struct pulled_image *image;

	*out_found = false;
	if (spec->image)
		TRY(pull_for(manager, who, spec, &image, out_pull));
	else
		image = image_named(manager, who, spec->template);
	if (!image)
		return OK;
	*out_found = true;
	return image_fill(manager, image, &to);
}

fallible pull_finish(struct manager *manager, struct operation *pull, struct record *record)
{
	struct image_target to = {
		.env = &record->env,
		.user = record->user,
		.template = record->template,
		.root = record->root,
		.workdir = &record->workdir,
		.launch = &record->launch,
		.image = &record->image,
	};
	struct pulled_image *image;

	TRY(pull_take(manager, pull, pull_deadline(manager), &image));
	return image_fill(manager, image, &to);
}
