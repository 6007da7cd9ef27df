// An S3 server as far as Daytona's clients need one: ListObjectsV2, PutObject and multipart
// uploads. A credential is random, of this daemon's life and an hour, and has the rights that the
// key or session that asked for it has now. Keys are TENANT/HASH/context.tar: a credential reaches
// its own tenant's alone. Answers and errors are XML.
//
// The parts of an upload are appended to one file in the order in which they come, one at a time,
// and put in order at its end.
#include "daytona/storage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "codec/aws_chunks.h"
#include "codec/tar.h"
#include "codec/text.h"
#include "daytona/commands.h"
#include "daytona/handlers.h"
#include "loop/closer.h"
#include "loop/pump.h"
#include "manager/build_files.h"
#include "types/sigv4.h"
#include "types/timers.h"

#define BASE "/daytona/storage/"
#define BUCKET "cove-builds"
#define OBJECT "context.tar"
#define REGION "us-east-1"
#define KEY_LEN 20
#define CREDENTIALS_MAX 16 // of a tenant
#define CREDENTIAL_MS (60 * 60 * 1000)
#define PARTS_MAX 10000
#define XML_MAX (64 * 1024)
#define COMPLETE_MAX (2 << 20) // of the body that ends an upload
#define PIECE (256 * 1024)
#define ORGANIZATION "default" // the operator's

struct storage_credential {
	struct link link; // oldest first
	char access_key[KEY_LEN + 1], secret[SIGV4_SECRET_LEN + 1];
	struct who who;
	int64_t ends_ms; // loop time
};

struct storage_part {
	uint32_t number;
	uint64_t at, len;
};

struct storage_upload {
	struct link link;
	char id[33], tenant[WHO_TENANT_MAX + 1];
	char digest[REFERENCE_DIGEST + 1]; // of the object
	struct build_upload *file;
	struct storage_part *parts;
	size_t count, room;
	uint64_t size;
	int64_t used_ms;
	bool busy;   // a part is received, or the upload ends
	bool broken; // a part was cut: what the file has is not known
	struct condition freed;
};

struct storage {
	struct link credentials, uploads;
	bool is_watched; // a task drops uploads that are abandoned
};

static struct storage *storage_of(const struct http *x)
{
	struct command_table *table = command_table_of(x);

	if (!table->storage) {
		table->storage = mem_new_of(struct storage);
		link_init(&table->storage->credentials);
		link_init(&table->storage->uploads);
	}
	return table->storage;
}

static const char *storage_organization(const struct who *who)
{
	return who->tenant[0] ? who->tenant : ORGANIZATION;
}

// The name of an object among the contexts of its tenant.
static void storage_digest(struct str key, char out[REFERENCE_DIGEST + 1])
{
	struct sha256 hash;

	sha256_begin(&hash);
	sha256_add(&hash, "daytona\n", 8);
	sha256_add(&hash, key.at, key.len);
	memcpy(out, "sha256:", 7);
	sha256_end(&hash, out + 7);
}

// ------------------------------------------------------------------------------------- credentials

static void storage_credential_drop(struct storage_credential *credential)
{
	link_drop(&credential->link);
	secret_wipe(credential, sizeof(*credential));
	free(credential);
}

// Drops those that are over, and the oldest of the tenant where it has too many.
static void storage_credentials_prune(struct storage *storage, const char *tenant, int64_t now)
{
	size_t count = 0;

	list_each (at, &storage->credentials)
		count += !strcmp(link_of(at, struct storage_credential, link)->who.tenant, tenant);
	list_each (at, &storage->credentials) {
		struct storage_credential *credential = link_of(at, struct storage_credential,
								link);
		bool is_of = !strcmp(credential->who.tenant, tenant);

		if (credential->ends_ms > now && !(is_of && count >= CREDENTIALS_MAX))
			continue;
		count -= is_of;
		storage_credential_drop(credential);
	}
}

fallible daytona_storage_access(struct http *x)
{
	struct storage *storage = storage_of(x);
	int64_t now = loop_now(gateway_of(x)->loop);
	struct storage_credential *credential;
	auto_secret_buf body = BUF_SECRET(4096);
	struct json_out out = json_to(&body);

	TRY(access_ask(gateway_who(x), ACCESS_TEMPLATES));
	storage_credentials_prune(storage, gateway_who(x)->tenant, now);
	credential = mem_new_of(struct storage_credential);
	secret_hex(credential->access_key, KEY_LEN / 2);
	secret_hex(credential->secret, SIGV4_SECRET_LEN / 2);
	credential->who = *gateway_who(x);
	credential->ends_ms = now + CREDENTIAL_MS;
	link_add(&storage->credentials, &credential->link);
	json_begin(&out, '{');
	json_put_text(&out, "accessKey", credential->access_key);
	json_put_text(&out, "secret", credential->secret);
	json_put_text(&out, "sessionToken", "");
	json_put_text(&out, "storageUrl",
		      arena_fmt(x->arena, "%s/daytona/storage", gateway_origin(x)));
	json_put_text(&out, "organizationId", storage_organization(gateway_who(x)));
	json_put_text(&out, "bucket", BUCKET);
	json_put_text(&out, "region", REGION);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static struct str storage_field(void *arg, const char *name)
{
	return http_field(arg, name);
}

// The rights of the credential that signed the request. False: none did, or they are over.
static bool storage_signer(struct http *x, struct who *out)
{
	struct sigv4_request request = {x->head.method, x->url.path, x->url.query, storage_field,
					x};
	int64_t now = loop_now(gateway_of(x)->loop);
	const struct storage_credential *found = NULL;
	struct sigv4 sigv4;

	if (!sigv4_read(http_field(x, "Authorization"), &sigv4) || !str_is(sigv4.service, "s3"))
		return false;
	list_each (at, &storage_of(x)->credentials) {
		const struct storage_credential *credential = link_of(at, struct storage_credential,
								      link);

		if (str_is(sigv4.access_key, credential->access_key) && credential->ends_ms > now)
			found = credential;
	}
	return found && sigv4_is_good(&sigv4, &request, found->secret, clock_wall_ms() / 1000) &&
	       web_sessions_rights(gateway_of(x)->web, &found->who, out);
}

// --------------------------------------------------------------------------------------------- XML

static fallible storage_reply(struct http *x, int status, const struct buf *xml)
{
	return http_reply(x, status, "application/xml", buf_view(xml));
}

static fallible storage_refuse(struct http *x, int status, const char *code, const char *message)
{
	auto_buf xml = BUF_INIT(XML_MAX);

	buf_text(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>");
	buf_text(&xml, code);
	buf_text(&xml, "</Code><Message>");
	for (; *message; message++)
		if (!strchr("<>&", *message))
			buf_char(&xml, *message);
	buf_text(&xml, "</Message></Error>");
	return storage_reply(x, status, &xml);
}

// An error of cove in S3's form.
static fallible storage_explain(struct http *x, struct err *failure)
{
	auto_err err = failure;

	if (!err || err_kind(err) == ERR_CANCELLED || x->reply_begun)
		return take_ptr(err);
	switch (err_kind(err)) {
	case ERR_FORBIDDEN:
		return storage_refuse(x, 403, "AccessDenied", err_message(err));
	case ERR_NOT_FOUND:
		return storage_refuse(x, 404, "NoSuchUpload", err_message(err));
	case ERR_INVALID:
		return storage_refuse(x, 400, "InvalidRequest", err_message(err));
	case ERR_TOO_LARGE:
		return storage_refuse(x, 400, "EntityTooLarge", err_message(err));
	case ERR_NOT_OFFERED:
		return storage_refuse(x, 501, "NotImplemented", err_message(err));
	case ERR_EXHAUSTED:
		return storage_refuse(x, 503, "SlowDown", err_message(err));
	default:
		return take_ptr(err);
	}
}

// ------------------------------------------------------------------------------------- reception

struct storage_body {
	struct http *x;
	int fd;
	uint64_t max, len;
	bool is_chunked, is_hashed;
	struct aws_chunks chunks;
	struct sha256 hash;
};

static fallible storage_put(struct storage_body *body, struct str bytes)
{
	if (!bytes.len)
		return OK;
	body->len += bytes.len;
	if (body->len > body->max)
		return err_new(TOO_LARGE, "body_too_large", "an object may have %llu bytes",
			       (unsigned long long)body->max);
	if (body->is_hashed)
		sha256_add(&body->hash, bytes.at, bytes.len);
	return pump_put(body->fd, bytes.at, bytes.len);
}

static fallible storage_feed(struct storage_body *body, struct str in)
{
	struct str out;

	if (!body->is_chunked)
		return storage_put(body, in);
	while (in.len) {
		out = aws_chunks_read(&body->chunks, &in);
		TRY(storage_put(body, out));
		if (aws_chunks_is_bad(&body->chunks))
			return err_new(INVALID, "bad_body", "the chunks of the body are malformed");
	}
	return OK;
}

// Appends the body of the request to the file. Its signed digest is checked.
static fallible storage_receive(struct http *x, int fd, uint64_t max, uint64_t *out)
{
	struct str claimed = http_field(x, "x-amz-content-sha256");
	struct storage_body body = {.x = x, .fd = fd, .max = max};
	char *room = arena_take(x->arena, PIECE);
	char digest[SHA256_HEX + 1];
	size_t len = 1;

	body.is_chunked = str_is(claimed, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
	body.is_hashed = claimed.len == SHA256_HEX;
	if (!body.is_chunked && !body.is_hashed && !str_is(claimed, "UNSIGNED-PAYLOAD"))
		return err_new(NOT_OFFERED, "not_offered", "this form of payload is not taken");
	sha256_begin(&body.hash);
	while (len) {
		TRY(http_read(x, room, PIECE, &len));
		TRY(storage_feed(&body, (struct str){room, len}));
	}
	sha256_end(&body.hash, digest);
	if (body.is_chunked && !aws_chunks_is_over(&body.chunks))
		return err_new(INVALID, "bad_body", "the body is not complete");
	if (body.is_hashed && !str_is(claimed, digest))
		return err_new(INVALID, "digest_mismatch", "the body has another digest");
	*out = body.len;
	return OK;
}

// ----------------------------------------------------------------------------------------- objects

bool storage_is_hash(struct str hash)
{
	for (size_t i = 0; i < hash.len; i++)
		if (text_hex_digit(hash.at[i]) < 0)
			return false;
	return hash.len > 0 && hash.len <= STORAGE_HASH_MAX;
}

// "TENANT/HASH/", with or without the object's name behind it.
static bool storage_read_key(const struct who *who, struct str key, const char *tail,
			     char digest[REFERENCE_DIGEST + 1])
{
	struct str rest = key, organization, hash;

	if (!str_cut(&rest, '/', &organization) || !str_cut(&rest, '/', &hash) || !rest.at ||
	    !str_is(organization, storage_organization(who)) || !storage_is_hash(hash) ||
	    !str_is(rest, tail))
		return false;
	storage_digest(hash, digest);
	return true;
}

static fallible storage_list(struct http *x, const struct who *who)
{
	struct str prefix = http_query(x, "prefix");
	char digest[REFERENCE_DIGEST + 1];
	auto_buf xml = BUF_INIT(XML_MAX);
	auto_closer_fd fd = -1;
	uint64_t bytes = 0;
	bool found = false;

	if (storage_read_key(who, prefix, "", digest)) {
		auto_err err = build_context_open(gateway_of(x)->manager, who->tenant,
						  str_of(digest), &fd, &bytes);

		if (err && err_kind(err) != ERR_NOT_FOUND)
			return take_ptr(err);
		found = !err;
	}
	buf_text(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
		       "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	buf_fmt(&xml,
		"<Name>" BUCKET "</Name><IsTruncated>false</IsTruncated><KeyCount>%d</KeyCount>",
		found);
	if (found)
		buf_fmt(&xml, "<Contents><Key>" STR_FMT OBJECT "</Key><Size>%llu</Size></Contents>",
			STR_ARG(prefix), (unsigned long long)bytes);
	buf_text(&xml, "</ListBucketResult>");
	return storage_reply(x, 200, &xml);
}

static void storage_file_drop(struct build_upload **file)
{
	build_context_abort(*file);
}

static fallible storage_put_object(struct http *x, const struct who *who, const char *digest)
{
	on_exit_call(storage_file_drop) struct build_upload *file = NULL;
	uint64_t len = 0;

	TRY(build_context_begin(gateway_of(x)->manager, who, str_of(digest), &file));
	TRY(storage_receive(x, build_upload_fd(file), build_upload_max(file), &len));
	TRY(build_context_keep(take_ptr(file)));
	http_set(x, "ETag", str_of(arena_fmt(x->arena, "\"%.32s\"", digest + 7)));
	return http_reply_empty(x, 200);
}

// ----------------------------------------------------------------------------------------- uploads

static void storage_upload_free(struct storage_upload *upload)
{
	link_drop(&upload->link);
	build_context_abort(take_ptr(upload->file));
	free(upload->parts);
	free(upload);
}

// The first upload that is abandoned; NULL: none is. *next: when to look again.
static struct storage_upload *storage_abandoned(const struct storage *storage, int64_t *next)
{
	int64_t now = loop_now(task_loop());

	*next = now + timer_ms(TIMER_UPLOAD);
	list_each (at, &storage->uploads) {
		struct storage_upload *upload = link_of(at, struct storage_upload, link);
		int64_t due = upload->used_ms + timer_ms(TIMER_UPLOAD);

		if (!upload->busy && due <= now)
			return upload;
		if (!upload->busy && due < *next)
			*next = due;
	}
	return NULL;
}

// Runs while there are uploads: an abandoned one holds one of the few places of its tenant.
static void storage_watch_task(void *arg)
{
	struct storage *storage = arg;
	auto_err err = OK;

	while (!err && !link_empty(&storage->uploads)) {
		int64_t next = 0;
		struct storage_upload *upload = storage_abandoned(storage, &next);

		if (upload)
			storage_upload_free(upload);
		else
			err = task_sleep_until(next);
	}
	storage->is_watched = false;
}

static fallible storage_upload_begin(struct http *x, const struct who *who, struct str key,
				     const char *digest)
{
	struct storage_upload *upload = NULL;
	struct build_upload *file = NULL;
	auto_buf xml = BUF_INIT(XML_MAX);

	TRY(build_context_begin(gateway_of(x)->manager, who, str_of(digest), &file));
	upload = mem_new_of(struct storage_upload);
	upload->file = file;
	secret_hex(upload->id, sizeof(upload->id) / 2);
	memcpy(upload->tenant, who->tenant, sizeof(upload->tenant));
	memcpy(upload->digest, digest, sizeof(upload->digest));
	upload->used_ms = loop_now(gateway_of(x)->loop);
	condition_init(&upload->freed);
	link_add(&storage_of(x)->uploads, &upload->link);
	if (!storage_of(x)->is_watched)
		task_start(gateway_of(x)->loop, "daytona.uploads", storage_watch_task,
			   storage_of(x));
	storage_of(x)->is_watched = true;
	buf_fmt(&xml,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?><InitiateMultipartUploadResult>"
		"<Bucket>" BUCKET "</Bucket><Key>" STR_FMT "</Key><UploadId>%s</UploadId>"
		"</InitiateMultipartUploadResult>",
		STR_ARG(key), upload->id);
	return storage_reply(x, 200, &xml);
}

// Waits for its turn: then it is the caller's until storage_upload_free() or …_release().
static fallible storage_upload_take(struct http *x, const struct who *who, const char *digest,
				    struct storage_upload **out)
{
	struct str id = http_query(x, "uploadId");

	for (;;) {
		struct storage_upload *found = NULL;

		list_each (at, &storage_of(x)->uploads) {
			struct storage_upload *upload = link_of(at, struct storage_upload, link);

			if (str_is(id, upload->id) && !strcmp(upload->tenant, who->tenant) &&
			    !strcmp(upload->digest, digest))
				found = upload;
		}
		if (!found || found->broken)
			return err_new(NOT_FOUND, "no_upload", "there is no such upload");
		if (!found->busy) {
			found->busy = true;
			*out = found;
			return OK;
		}
		TRY(condition_wait(&found->freed, CLOCK_NEVER));
	}
}

static void storage_upload_release(struct http *x, struct storage_upload *upload)
{
	upload->busy = false;
	upload->used_ms = loop_now(gateway_of(x)->loop);
	condition_signal(&upload->freed);
}

static fallible storage_part_receive(struct http *x, struct storage_upload *upload, uint32_t number)
{
	struct storage_part part = {.number = number, .at = upload->size};
	struct err *err;

	if (upload->count >= PARTS_MAX)
		return err_new(EXHAUSTED, "quota", "an upload has at most %d parts", PARTS_MAX);
	err = storage_receive(x, build_upload_fd(upload->file),
			      build_upload_max(upload->file) - upload->size, &part.len);
	if (err) {
		upload->broken = true;
		return err;
	}
	upload->size += part.len;
	for (size_t i = 0; i < upload->count; i++)
		if (upload->parts[i].number == number) { // sent again
			upload->parts[i] = part;
			return OK;
		}
	if (upload->count == upload->room) {
		upload->room = 2 * upload->room + 16;
		upload->parts = mem_grow(upload->parts, upload->room, sizeof(*upload->parts));
	}
	upload->parts[upload->count++] = part;
	return OK;
}

static fallible storage_upload_part(struct http *x, const struct who *who, const char *digest)
{
	struct storage_upload *upload = NULL;
	uint64_t number = 0;
	struct err *err;

	if (!str_to_u64(http_query(x, "partNumber"), 1, PARTS_MAX, &number))
		return err_new(INVALID, "bad_field", "partNumber must be within 1 and %d",
			       PARTS_MAX);
	TRY(storage_upload_take(x, who, digest, &upload));
	assert(upload);
	err = storage_part_receive(x, upload, (uint32_t)number);
	storage_upload_release(x, upload);
	TRY(err);
	http_set(x, "ETag", str_of(arena_fmt(x->arena, "\"part-%u\"", (unsigned)number)));
	return http_reply_empty(x, 200);
}

static int storage_compare_parts(const void *a, const void *b)
{
	const struct storage_part *one = a, *two = b;

	return one->number < two->number ? -1 : one->number > two->number;
}

static fallible storage_copy(int from, uint64_t at, uint64_t len, int to)
{
	auto_free char *room = mem_new(PIECE);

	while (len) {
		size_t got = 0;

		TRY(pump_get(from, at, room, len < PIECE ? (size_t)len : PIECE, &got));
		if (!got)
			return err_new(INTERNAL, "internal", "a file is shorter than it was");
		TRY(pump_put(to, room, got));
		at += got;
		len -= got;
	}
	return OK;
}

// Numbers without a gap from 1 on, as the client lists them.
static fallible storage_order(struct storage_upload *upload, bool *out_in_order)
{
	uint64_t at = 0;

	qsort(upload->parts, upload->count, sizeof(*upload->parts), storage_compare_parts);
	*out_in_order = true;
	for (size_t i = 0; i < upload->count; i++) {
		if (upload->parts[i].number != i + 1)
			return err_new(INVALID, "bad_field", "part %zu is missing", i + 1);
		*out_in_order &= upload->parts[i].at == at;
		at += upload->parts[i].len;
	}
	*out_in_order &= at == upload->size;
	return upload->count ? OK : err_new(INVALID, "bad_field", "the upload has no parts");
}

static fallible storage_assemble(struct http *x, const struct who *who,
				 struct storage_upload *upload)
{
	on_exit_call(storage_file_drop) struct build_upload *file = NULL;
	bool in_order;

	TRY(storage_order(upload, &in_order));
	if (in_order)
		return build_context_keep(take_ptr(upload->file));
	TRY(build_context_begin(gateway_of(x)->manager, who, str_of(upload->digest), &file));
	for (size_t i = 0; i < upload->count; i++)
		TRY(storage_copy(build_upload_fd(upload->file), upload->parts[i].at,
				 upload->parts[i].len, build_upload_fd(file)));
	return build_context_keep(take_ptr(file));
}

static fallible storage_upload_end(struct http *x, const struct who *who, struct str key,
				   const char *digest)
{
	struct storage_upload *upload = NULL;
	auto_buf xml = BUF_INIT(XML_MAX);
	struct str body = {0};
	struct err *err;

	TRY(http_body(x, COMPLETE_MAX, &body)); // which parts there are is known here
	TRY(storage_upload_take(x, who, digest, &upload));
	assert(upload);
	task_shield(true);
	err = storage_assemble(x, who, upload);
	task_shield(false);
	upload->broken = true;
	condition_signal(&upload->freed);
	storage_upload_free(upload);
	TRY(err);
	buf_fmt(&xml,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?><CompleteMultipartUploadResult>"
		"<Bucket>" BUCKET "</Bucket><Key>" STR_FMT "</Key><ETag>\"%.32s\"</ETag>"
		"</CompleteMultipartUploadResult>",
		STR_ARG(key), digest + 7);
	return storage_reply(x, 200, &xml);
}

static fallible storage_upload_abort(struct http *x, const struct who *who, const char *digest)
{
	struct storage_upload *upload = NULL;

	TRY(storage_upload_take(x, who, digest, &upload));
	assert(upload);
	upload->broken = true;
	condition_signal(&upload->freed);
	storage_upload_free(upload);
	return http_reply_empty(x, 204);
}

// ------------------------------------------------------------------------------------------ routes

static fallible storage_serve(struct http *x, const struct who *who)
{
	struct str rest = str_skip(x->url.path, strlen(BASE)), bucket, method = x->head.method;
	bool is_upload = http_query(x, "uploadId").at;
	char digest[REFERENCE_DIGEST + 1];

	TRY(access_ask(who, ACCESS_TEMPLATES));
	str_cut(&rest, '/', &bucket);
	if (!str_is(bucket, BUCKET))
		return err_new(FORBIDDEN, "not_allowed", "there is no such bucket");
	if (!rest.len && str_is(method, "GET") && str_is(http_query(x, "list-type"), "2"))
		return storage_list(x, who);
	if (!storage_read_key(who, rest.at ? rest : STR(""), OBJECT, digest))
		return err_new(FORBIDDEN, "not_allowed", "this key is not to be used");
	if (str_is(method, "PUT"))
		return is_upload ? storage_upload_part(x, who, digest)
				 : storage_put_object(x, who, digest);
	if (str_is(method, "POST") && is_upload)
		return storage_upload_end(x, who, rest, digest);
	if (str_is(method, "POST") && http_query(x, "uploads").at)
		return storage_upload_begin(x, who, rest, digest);
	if (str_is(method, "DELETE") && is_upload)
		return storage_upload_abort(x, who, digest);
	return err_new(NOT_OFFERED, "not_offered", "cove offers the upload of build contexts");
}

fallible daytona_storage_request(struct http *x)
{
	struct who *who = arena_take(x->arena, sizeof(*who));

	if (!storage_signer(x, who)) {
		authenticate_report(x, "bad_signature", "low");
		return storage_refuse(x, 403, "SignatureDoesNotMatch",
				      "the request is not signed by a credential of this cove");
	}
	x->principal = who;
	return storage_explain(x, storage_serve(x, who));
}

// ------------------------------------------------------------------------------- context of a
// build

// Copies the members of an archive, without its end. `left`: what the file may still have.
static fallible storage_append_tar(int from, uint64_t bytes, int to, uint64_t *left)
{
	struct tar_in *in = mem_new_of(struct tar_in);
	enum tar_step step = TAR_MORE;
	struct err *err = OK;
	struct tar_head head;
	uint64_t at = 0, skip = 0;
	char block[TAR_BLOCK];

	tar_begin(in);
	while (!err && step != TAR_END && at + TAR_BLOCK <= bytes) {
		size_t got = 0;

		err = pump_get(from, at, block, sizeof(block), &got);
		if (err || got < sizeof(block))
			break;
		step = tar_feed(in, block, &head);
		at += TAR_BLOCK;
		skip = step == TAR_ENTRY && head.type == TAR_FILE
			       ? head.size + tar_padding(head.size)
			       : 0;
		if (step == TAR_BAD || skip > bytes - at)
			err = err_new(INVALID, "bad_archive", "a context is no archive");
		at += err ? 0 : skip;
	}
	free(in);
	TRY(err);
	if (step != TAR_END && at != bytes)
		return err_new(INVALID, "bad_archive", "a context is no archive");
	at -= step == TAR_END ? TAR_BLOCK : 0;
	if (at > *left)
		return err_new(TOO_LARGE, "body_too_large",
			       "the contexts of a build are too large together");
	*left -= at;
	return storage_copy(from, 0, at, to);
}

static fallible storage_append(struct http *x, struct str hash, int to, uint64_t *left)
{
	char digest[REFERENCE_DIGEST + 1];
	auto_closer_fd fd = -1;
	uint64_t bytes = 0;
	struct err *err;

	storage_digest(hash, digest);
	err = build_context_open(gateway_of(x)->manager, gateway_who(x)->tenant, str_of(digest),
				 &fd, &bytes);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_hint(err_new(NOT_FOUND, "no_blob",
					"there are no files of the hash " STR_FMT, STR_ARG(hash)),
				"send them again: files are kept for a day after their last use");
	}
	TRY(err);
	return storage_append_tar(fd, bytes, to, left);
}

fallible storage_context(struct http *x, const struct json *hashes, struct str *out)
{
	on_exit_call(storage_file_drop) struct build_upload *file = NULL;
	auto_buf key = BUF_INIT(STORAGE_HASHES_MAX * (STORAGE_HASH_MAX + 1) + 16);
	const char *zeros = arena_take(x->arena, 2 * (size_t)TAR_BLOCK);
	char *digest = arena_take(x->arena, REFERENCE_DIGEST + 1);
	size_t count = hashes ? json_count(hashes) : 0;
	uint64_t left;

	if (!count)
		return OK;
	buf_text(&key, "merged");
	for (size_t i = 0; i < count; i++) {
		buf_char(&key, '/');
		buf_str(&key, json_chars(json_at(hashes, i)));
	}
	storage_digest(buf_view(&key), digest);
	TRY(build_context_begin(gateway_of(x)->manager, gateway_who(x), str_of(digest), &file));
	left = build_upload_max(file);
	for (size_t i = 0; i < count; i++)
		TRY(storage_append(x, json_chars(json_at(hashes, i)), build_upload_fd(file),
				   &left));
	memset((char *)zeros, 0, 2 * (size_t)TAR_BLOCK);
	TRY(pump_put(build_upload_fd(file), zeros, 2 * (size_t)TAR_BLOCK));
	TRY(build_context_keep(take_ptr(file)));
	*out = str_of(digest);
	return OK;
}
