// Templates are stored by the warden; this file talks to it. An import is a pipe to the warden's
// unpacker: write the client's bytes, close it, and ask for the result. To the unpacker a truncated
// archive looks like a complete one, so a task waits for an aborted import and removes the template
// if one was made.
#include "manager/templates.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "box/files.h"
#include "loop/closer.h"
#include "loop/stream.h"
#include "manager/access.h"
#include "manager/login_user.h"
#include "manager/pulled.h"
#include "manager/snapshot_note.h"
#include "types/image.h"
#include "types/launch.h"

#define ASK_MS 30000
#define WORK_MS (3600 * 1000) // a large archive on a slow disk
#define SILENCE_MS 120000     // the unpacker may sync between two reads
#define LEAST (1ull << 20)    // bytes that the owner's quota must have left
#define IMAGE_READ_MS 10000

// ----------------------------------------------------------------------------- image configuration
//
// Cached by template. A file worker reads the file from a box before anything of the owner runs
// there, so it is the template's. It affects only boxes of that template.

static struct image *image_parse(const struct entry *entry, struct str text)
{
	struct image *image = mem_new_of(struct image);
	auto_err err = text.len ? image_read(text, image) : OK;

	if (err)
		log_event(LOG_WARN, "template.bad_image", "template", entry->record.template,
			  "sandbox", entry->record.id, "reason", err_reason(err), NULL);
	return image;
}

static fallible image_of(struct entry *entry, const struct files *files, const struct image **out)
{
	struct manager *manager = entry->manager;
	struct str name = str_of(entry->record.template);
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	struct image *image = map_get(manager->images, name);

	if (!image) {
		struct err *err = files_read(files, IMAGE_FILE, &text, &fd, &stat);

		// A directory or symlink of that name is no configuration.
		if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
			return err_while(err, "read the configuration of the image");
		err_free(err);
		image = map_get(manager->images, name); // another create may have been faster
	}
	if (!image) {
		image = image_parse(entry, buf_view(&text));
		map_put(manager->images, name, image);
	}
	*out = image;
	return OK;
}

static void take_over(struct record *record, const struct image *image)
{
	for (size_t i = 0; i < image->env.count; i++)
		if (!env_map_get(&record->env, str_of(image->env.at[i].name)))
			env_map_set(&record->env, str_of(image->env.at[i].name),
				    str_of(image->env.at[i].value));
	if (!record->user[0])
		memcpy(record->user, image->user, sizeof(record->user));
	if (!record->workdir && image->workdir[0])
		record->workdir = mem_str(image->workdir);
}

static bool is_root(const char *user)
{
	return !strcmp(user, "root") || !strcmp(user, "0") || !strcmp(user, "0:0") ||
	       !strcmp(user, "root:root");
}

fallible images_apply(struct entry *entry)
{
	struct record *record = &entry->record;
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->manager->loop) + IMAGE_READ_MS,
	};
	const struct image *image = NULL;
	struct fileop_stat stat;

	// Of a pulled image manager/pull has filled the record. A fork has taken over what its
	// source had; the file is its owner's by now.
	if (strcmp(record->template, "host") != 0 && !record->root[0] && !record->fork[0]) {
		TRY(image_of(entry, &files, &image));
		if (image)
			take_over(record, image);
	}
	// The sandbox of a build runs its steps alone.
	if (!env_map_get(&record->labels, STR(BOX_BUILD_LABEL)))
		TRY(launch_fill(&record->launch, image ? image->launch : NULL,
				image ? image->argv : NULL));
	if (!record->user[0] && record->login[0])
		TRY(login_user_apply(entry), "add the user %s", record->login);
	if (is_root(record->user))
		record->user[0] = '\0';
	// Before the create is acknowledged: the record that is durable has what the request said.
	if (record->login[0] || record->launch ||
	    (image && (image->env.count || image->user[0] || image->workdir[0])))
		TRY(entry_keep_now(entry));
	if (record->workdir)
		TRY(files_mkdir(&files, record->workdir, true, 0755), "make the directory %s",
		    record->workdir);
	files.user = record->user;
	return record->user[0] ? files_stat(&files, "/", true, &stat) : OK;
}

static void image_free(struct image *image)
{
	image_done(image);
	free(image);
}

// The template of that name was removed or replaced.
static void images_forget(struct manager *manager, const char *template)
{
	struct image *image = map_take(manager->images, str_of(template));

	if (image)
		image_free(image);
}

void images_done(struct manager *manager)
{
	struct str name;
	void *image;

	for (size_t at = 0; map_next(manager->images, &at, &name, &image);)
		image_free(image);
	map_free(manager->images);
}

// --------------------------------------------------------------------------------------- templates

struct templates_import {
	struct manager *manager;
	struct account *account; // whose import slot it uses; NULL: none
	uint64_t bytes_max;	 // bytes that the owner's quota has left
	uint64_t bytes;		 // of the archive so far
	struct ask_import *ask;
	struct stream pipe;
	char name[TEMPLATE_NAME_MAX];  // as it is stored
	char shown[TEMPLATE_NAME_MAX]; // as the request names it
};

static fallible manager_templates_check_name(struct str name)
{
	if (id_is_template(name) && name.len < TEMPLATE_NAME_MAX)
		return OK;
	return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
			"1 to 63 of a-z, 0-9 and ._-, beginning with a letter or digit");
}

// "host" is this machine's root file system: it cannot be created or removed.
static fallible check_own_name(struct str name)
{
	TRY(manager_templates_check_name(name));
	if (str_is(name, "host"))
		return err_hint(err_new(CONFLICT, "template_reserved",
					"the template 'host' is this machine's own"),
				"choose another name");
	return OK;
}

static struct order order_for(enum order_kind kind, struct str name)
{
	struct order order = {.kind = kind};

	snprintf(order.name, sizeof(order.name), STR_FMT, STR_ARG(name));
	return order;
}

static struct template template_of(const struct order_template *from)
{
	struct template out = {
		.kind = from->is_host ? "frozen" : "imported",
		.bytes = from->bytes,
		.created_ms = from->created,
	};

	if (!strcmp(from->name, "host"))
		out.kind = "host";
	else if (from->is_snapshot)
		out.kind = "snapshot";
	snprintf(out.name, sizeof(out.name), "%s", from->name);
	return out;
}

static fallible manager_templates_list_all(struct manager *manager, struct template **out,
					   size_t *out_count)
{
	struct order order = {.kind = ORDER_LIST};
	auto_free struct answer *answer = mem_new_of(struct answer); // too large for a task's stack
	auto_free struct template *all = mem_new_of(struct template);
	size_t count = 1;

	// The template is made at its first use, but it can be used from the start.
	all[0] = (struct template){.name = "host", .kind = "host"};
	do {
		int fds[ORDER_FDS_MAX];

		TRY(ask_order(manager->ask, &order, answer, fds, loop_now(manager->loop) + ASK_MS));
		for (uint32_t i = 0; i < answer->template_count; i++) {
			struct template one = template_of(&answer->templates[i]);

			snprintf(order.name, sizeof(order.name), "%s", one.name);
			if (!strcmp(one.name, "host")) {
				all[0] = one;
				continue;
			}
			all = mem_grow(all, count + 1, sizeof(*all));
			all[count++] = one;
		}
	} while (answer->template_count == ORDER_LIST_PAGE);
	*out = take_ptr(all);
	*out_count = count;
	return OK;
}

// A name that starts with a tenant's name and a dot is that tenant's: only the tenant and the
// operator see it.
static const struct account *owner_of(const struct manager *manager, const char *name)
{
	struct str rest = str_of(name), head = {0};
	const struct account *account;

	if (!strchr(name, '.') || !str_cut(&rest, '.', &head))
		return NULL;
	account = accounts_find(&manager->accounts, head);
	return account && account->known ? account : NULL;
}

// Whether the tenant may use a template of the operator's.
static bool is_lent(const struct manager *manager, const struct who *who, const char *name)
{
	const struct account *account = accounts_find(&manager->accounts, str_of(who->tenant));

	if (!strcmp(name, "host"))
		return who->may_host;
	if (owner_of(manager, name))
		return who->role == WHO_OPERATOR;
	if (!who->tenant[0])
		return true;
	for (size_t i = 0; account && i < account->tenant.template_count; i++)
		if (!strcmp(name, account->tenant.templates[i]))
			return true;
	return account && account->tenant.all_templates;
}

// "base" of the tenant acme is stored as "acme.base". False: too long.
static bool own_name(const struct who *who, struct str name, char out[TEMPLATE_NAME_MAX])
{
	int len = snprintf(out, TEMPLATE_NAME_MAX, "%s%s" STR_FMT, who->tenant,
			   who->tenant[0] ? "." : "", STR_ARG(name));

	return len < TEMPLATE_NAME_MAX;
}

static bool is_own(const struct who *who, const char *kept)
{
	size_t len = strlen(who->tenant);

	return len && !strncmp(kept, who->tenant, len) && kept[len] == '.';
}

static struct template template_of_image(const struct manager *manager,
					 const struct pulled_image *image)
{
	struct template out = {
		.kind = "image",
		.bytes = pulled_bytes(manager, image),
		.created_ms = image->created_ms,
		.image = image,
	};

	snprintf(out.name, sizeof(out.name), "%s", image->name);
	return out;
}

// A tenant sees its own images, and those of the operator's that it may use.
static bool pulled_is_seen(const struct manager *manager, const struct who *who,
			   const struct pulled_image *image)
{
	if (!strcmp(image->tenant, who->tenant))
		return true;
	return !image->tenant[0] && is_lent(manager, who, image->name);
}

// What was noted of the snapshots among them.
static fallible ask_notes(struct manager *manager, struct template *all, size_t count)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int fds[ORDER_FDS_MAX];

	for (size_t i = 0; i < count; i++) {
		struct order order = order_for(ORDER_DESCRIBE, str_of(all[i].name));

		if (strcmp(all[i].kind, "snapshot") != 0)
			continue;
		TRY(ask_order(manager->ask, &order, answer, fds, loop_now(manager->loop) + ASK_MS));
		memcpy(all[i].note, answer->note, sizeof(all[i].note));
		if (snapshot_note_is_built(all[i].note))
			all[i].kind = "built";
	}
	return OK;
}

fallible templates_all(struct manager *manager, const struct who *who, struct template **out,
		       size_t *out_count)
{
	auto_free struct template *all = NULL;
	struct pulled_image *image;
	size_t count = 0, seen = 0;

	TRY(access_ask(who, ACCESS_READ));
	TRY(manager_templates_list_all(manager, &all, &count));
	TRY(ask_notes(manager, all, count));
	for (size_t i = 0; i < count; i++) {
		struct template one = all[i];

		if (is_own(who, one.name))
			snprintf(one.name, sizeof(one.name), "%s",
				 all[i].name + strlen(who->tenant) + 1);
		else if (!is_lent(manager, who, one.name))
			continue;
		all[seen++] = one;
	}
	for (size_t at = 0; pulled_next(manager, &at, &image);) {
		struct template one;

		if (!pulled_is_seen(manager, who, image))
			continue;
		one = template_of_image(manager, image);
		all = mem_grow(all, seen + 1 > count ? seen + 1 : count, sizeof(*all));
		all[seen++] = one;
	}
	*out = take_ptr(all);
	*out_count = seen;
	return OK;
}

static fallible absent(struct str name)
{
	return err_hint(err_new(NOT_FOUND, "no_template", "there is no template '" STR_FMT "'",
				STR_ARG(name)),
			"GET /v1/templates lists those there are");
}

// The command that allows the template `host`, with everything that the tenant is already allowed:
// 'tenant set' replaces the whole.
static void allow_host(const struct manager *manager, const struct who *who, struct buf *out)
{
	const struct account *account = accounts_find(&manager->accounts, str_of(who->tenant));
	const struct tenant *tenant = account ? &account->tenant : NULL;

	buf_fmt(out, "cove tenant set %s --host", who->tenant);
	if (!tenant)
		return;
	if (tenant->quota.boxes)
		buf_fmt(out, " --boxes %" PRIu64, tenant->quota.boxes);
	if (tenant->quota.execs)
		buf_fmt(out, " --execs %" PRIu64, tenant->quota.execs);
	if (tenant->quota.memory)
		buf_fmt(out, " --memory %" PRIu64 "m", tenant->quota.memory >> 20);
	if (tenant->quota.disk)
		buf_fmt(out, " --disk %" PRIu64 "m", tenant->quota.disk >> 20);
	if (tenant->quota.cpu_milli)
		buf_fmt(out, " --cpus %g", (double)tenant->quota.cpu_milli / 1000);
	if (tenant->network_said)
		buf_fmt(out, " --network %s", policy_mode_word(tenant->network));
	if (tenant->all_templates)
		buf_text(out, " --template '*'");
	for (size_t i = 0; i < tenant->template_count; i++)
		buf_fmt(out, " --template %s", tenant->templates[i]);
	if (tenant->template[0])
		buf_fmt(out, " --default-template %s", tenant->template);
}

static fallible no_host(const struct manager *manager, const struct who *who)
{
	auto_buf command = BUF_INIT(4096);
	struct err *err = err_new(FORBIDDEN, "host_not_allowed",
				  "this key may not start from the template 'host'");

	if (!who->tenant[0])
		return err_hint(err, "the operator makes one that may: cove key create --host");
	allow_host(manager, who, &command);
	return err_hint(err, "the operator allows it by: %s",
			buf_ok(&command) ? command.at : "cove tenant set --host");
}

void templates_default(const struct manager *manager, const struct who *who,
		       char name[TEMPLATE_NAME_MAX])
{
	const struct account *account = accounts_find(&manager->accounts, str_of(who->tenant));

	if (!name[0])
		snprintf(name, TEMPLATE_NAME_MAX, "%s",
			 account && account->tenant.template[0] ? account->tenant.template
								: "host");
}

fallible templates_resolve(struct manager *manager, const struct who *who,
			   char name[TEMPLATE_NAME_MAX])
{
	auto_free struct template *all = NULL;
	char own[TEMPLATE_NAME_MAX];
	size_t count = 0;

	if (!strcmp(name, "host"))
		return who->may_host || weak(HOST_KEY) ? OK : no_host(manager, who);
	if (!who->tenant[0])
		return is_lent(manager, who, name) ? OK : absent(str_of(name));
	TRY(manager_templates_list_all(manager, &all, &count));
	if (own_name(who, str_of(name), own))
		for (size_t i = 0; i < count; i++)
			if (!strcmp(all[i].name, own)) {
				snprintf(name, TEMPLATE_NAME_MAX, "%s", own);
				return OK;
			}
	for (size_t i = 0; i < count; i++)
		if (!strcmp(all[i].name, name) && is_lent(manager, who, name))
			return OK;
	return absent(str_of(name));
}

fallible templates_get(struct manager *manager, const struct who *who, struct str name,
		       struct template *out)
{
	auto_free struct template *all = NULL;
	size_t count = 0;

	TRY(access_ask(who, ACCESS_READ));
	TRY(manager_templates_check_name(name));
	TRY(templates_all(manager, who, &all, &count));
	for (size_t i = 0; i < count; i++) {
		if (str_is(name, all[i].name)) {
			*out = all[i];
			return OK;
		}
	}
	return absent(name);
}

static fallible order_alone(struct manager *manager, enum order_kind kind, struct str name,
			    int64_t wait_ms, struct template *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = order_for(kind, name);
	int fds[ORDER_FDS_MAX];

	TRY(ask_order(manager->ask, &order, answer, fds, loop_now(manager->loop) + wait_ms));
	images_forget(manager, order.name);
	if (out) {
		*out = (struct template){
			.kind = kind == ORDER_FREEZE ? "frozen" : "imported",
			.bytes = answer->bytes,
			.files = answer->files,
			.created_ms = clock_wall_ms(),
		};
		memcpy(out->name, order.name, sizeof(out->name));
	}
	return OK;
}

fallible templates_count(struct manager *manager)
{
	auto_free struct template *all = NULL;
	size_t count = 0, at = 0;
	struct str name;
	void *account;

	TRY(manager_templates_list_all(manager, &all, &count));
	while (map_next(manager->accounts.by_name, &at, &name, &account))
		((struct account *)account)->used.templates = 0;
	for (size_t i = 0; i < count; i++) {
		const struct account *owner = owner_of(manager, all[i].name);

		// Those of no tenant are the operator's, who has no quota.
		accounts_get(&manager->accounts, owner ? owner->tenant.name : "")->used.templates +=
			all[i].bytes;
	}
	return OK;
}

// The warden knows the result; a count that failed is repeated after the next change.
static void count_again(struct manager *manager)
{
	auto_err err = templates_count(manager);

	if (err)
		log_event(LOG_WARN, "template.not_counted", "trail", err_trail(err), NULL);
}

// The template was made: remove it again if it exceeds its owner's quota.
static fallible check_quota(struct manager *manager, struct account *account, const char *kept,
			    uint64_t bytes)
{
	struct err *err = account_ask_disk(account, bytes);

	if (err)
		err_free(order_alone(manager, ORDER_FORGET, str_of(kept), ASK_MS, NULL));
	count_again(manager);
	return err;
}

static fallible too_many(void)
{
	return err_hint(err_new(EXHAUSTED, "too_many_imports",
				"no more templates can be made at the same time"),
			"wait until one of them is done");
}

fallible templates_take_share(struct manager *manager, const struct who *who, struct account **out)
{
	struct account *account = accounts_get(&manager->accounts, who->tenant);

	if (who->tenant[0] && account->imports >= TEMPLATES_SHARE)
		return too_many();
	TRY(account_ask_disk(account, LEAST));
	account->imports++;
	*out = account;
	return OK;
}

void templates_give_share(struct account **account)
{
	if (*account)
		(*account)->imports--;
	*account = NULL;
}

// The stored name of a template to change: one of the tenant's own.
static fallible to_own(const struct manager *manager, const struct who *who, struct str name,
		       char out[TEMPLATE_NAME_MAX])
{
	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(check_own_name(name));
	if (!own_name(who, name, out))
		return err_hint(err_new(INVALID, "bad_template", "this name is too long"),
				"up to %zu letters",
				sizeof(char[TEMPLATE_NAME_MAX]) - 2 - strlen(who->tenant));
	if (!who->tenant[0] && who->role != WHO_OPERATOR && owner_of(manager, out))
		return err_new(FORBIDDEN, "not_allowed", "this name is a tenant's");
	return OK;
}

static fallible check_free(const struct manager *manager, const struct who *who, struct str name)
{
	if (!pulled_find(manager, who->tenant, name))
		return OK;
	return err_hint(err_new(CONFLICT, "template_exists",
				"there is a template '" STR_FMT "' already", STR_ARG(name)),
			"choose another name, or delete that one first");
}

// A refusal has the stored name: replace it by the tenant's name for it.
fallible templates_reword(struct err *err, const struct who *who, struct str name)
{
	if (!err || !who->tenant[0])
		return err;
	if (!strcmp(err_reason(err), "too_many_imports")) { // do not reveal other tenants' imports
		err_free(err);
		return too_many();
	}
	if (err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return absent(name);
	}
	if (err_kind(err) == ERR_CONFLICT && !strcmp(err_reason(err), "template_exists"))
		return err_recast(err, ERR_CONFLICT, "template_exists",
				  "there is a template '" STR_FMT "' already", STR_ARG(name));
	return err;
}

static void templates_publish_gone(const struct who *who, struct str name)
{
	auto_free char *text = mem_dup(name.at, name.len);

	event_publish(EVENT_TEMPLATE_GONE, "tenant", who->tenant, "template", text, NULL);
}

fallible templates_forget(struct manager *manager, const struct who *who, struct str name)
{
	char own[TEMPLATE_NAME_MAX];
	struct pulled_image *image;
	uint64_t freed = 0;
	struct err *err;

	TRY(to_own(manager, who, name, own));
	image = pulled_find(manager, who->tenant, name);
	if (image) {
		TRY(pulled_drop(manager, image));
		templates_publish_gone(who, name);
		return pulled_collect(manager, who->tenant, 0, &freed);
	}
	err = order_alone(manager, ORDER_FORGET, str_of(own), ASK_MS, NULL);
	if (!err) {
		count_again(manager);
		templates_publish_gone(who, name);
	}
	return templates_reword(err, who, name);
}

fallible templates_forget_all(struct manager *manager, const char *tenant)
{
	const struct account *account = accounts_find(&manager->accounts, str_of(tenant));
	struct who as = {.role = WHO_TENANT};
	auto_free struct template *all = NULL;
	size_t count = 0;

	if (account && account->imports)
		return err_hint(err_new(CONFLICT, "tenant_in_use", "%u templates are being made",
					account->imports),
				"wait for their end first");
	snprintf(as.tenant, sizeof(as.tenant), "%s", tenant);
	TRY(manager_templates_list_all(manager, &all, &count));
	for (size_t i = 0; i < count; i++)
		if (is_own(&as, all[i].name))
			TRY(order_alone(manager, ORDER_FORGET, str_of(all[i].name), ASK_MS, NULL));
	TRY(pulled_prune(manager, tenant, 0, false, &count));
	return templates_count(manager);
}

fallible templates_claim(struct manager *manager, const struct who *who, struct str name,
			 char out[TEMPLATE_NAME_MAX], struct account **out_account)
{
	TRY(to_own(manager, who, name, out));
	TRY(check_free(manager, who, name));
	return templates_take_share(manager, who, out_account);
}

fallible templates_settle(struct manager *manager, const struct who *who, struct str name,
			  const char *kept, struct account *account, uint64_t bytes,
			  struct err *failure)
{
	struct err *err = failure;

	if (!err) {
		images_forget(manager, kept);
		err = check_quota(manager, account, kept, bytes);
	}
	templates_give_share(&account);
	return templates_reword(err, who, name);
}

fallible templates_freeze(struct manager *manager, const struct who *who, struct str name,
			  struct template *out)
{
	char own[TEMPLATE_NAME_MAX];
	struct account *account = NULL;
	struct err *err;

	TRY(to_own(manager, who, name, own));
	TRY(check_free(manager, who, name));
	if (!who->may_host)
		return no_host(manager, who);
	TRY(templates_take_share(manager, who, &account));
	err = order_alone(manager, ORDER_FREEZE, str_of(own), WORK_MS, out);
	if (!err)
		err = check_quota(manager, account, own, out->bytes);
	templates_give_share(&account);
	TRY(templates_reword(err, who, name));
	snprintf(out->name, sizeof(out->name), STR_FMT, STR_ARG(name));
	return OK;
}

fallible templates_import_begin(struct manager *manager, const struct who *who, struct str name,
				struct templates_import **out)
{
	struct ask_import *ask = NULL;
	struct templates_import *import;
	struct account *account = NULL;
	char own[TEMPLATE_NAME_MAX];
	int pipe = -1;

	TRY(to_own(manager, who, name, own));
	TRY(check_free(manager, who, name));
	TRY(templates_take_share(manager, who, &account));
	import = mem_new_of(struct templates_import);
	memcpy(import->name, own, sizeof(own));
	snprintf(import->shown, sizeof(import->shown), STR_FMT, STR_ARG(name));
	import->manager = manager;
	import->account = account;
	import->bytes_max = account_disk_left(account);
	struct err *err = ask_import_begin(manager->ask, import->name, &ask, &pipe);

	if (err) {
		templates_give_share(&import->account);
		free(import);
		return templates_reword(err, who, name);
	}
	import->ask = ask;
	import->pipe.fd = -1;
	err = stream_open(&import->pipe, manager->loop, pipe);
	if (err) {
		templates_import_free(import);
		return err;
	}
	*out = import;
	return OK;
}

fallible templates_import_write(struct templates_import *import, const void *bytes, size_t len)
{
	struct err *err;

	import->bytes += len;
	if (import->bytes > import->bytes_max && import->account) {
		TRY(account_ask_disk(import->account, import->bytes));
		import->bytes_max = account_disk_left(import->account);
	}
	err = stream_write(&import->pipe, bytes, len, SILENCE_MS);
	// The unpacker closed the pipe early: its answer says why.
	if (err && err_kind(err) == ERR_BAD_PEER) {
		struct template ignored;
		struct err *why = templates_import_end(import, &ignored);

		if (why) {
			err_free(err);
			return why;
		}
	}
	return err;
}

fallible templates_import_end(struct templates_import *import, struct template *out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int64_t deadline = loop_now(import->manager->loop) + WORK_MS;
	struct account *account = import->account;

	if (!import->ask)
		return err_new(INTERNAL, "internal", "the import has ended");
	stream_close(&import->pipe);
	struct err *err = ask_import_end(take_ptr(import->ask), answer, deadline);

	if (!err)
		err = check_quota(import->manager, account, import->name, answer->bytes);
	templates_give_share(&import->account);
	TRY(err);
	images_forget(import->manager, import->name);
	*out = (struct template){
		.kind = "imported",
		.bytes = answer->bytes,
		.files = answer->files,
		.created_ms = clock_wall_ms(),
	};
	memcpy(out->name, import->shown, sizeof(out->name));
	return OK;
}

static void manager_templates_give_up(void *arg)
{
	struct templates_import *import = arg;
	struct template ignored;
	auto_err end = NULL;
	auto_err forgotten = NULL;

	task_shield(true);
	end = templates_import_end(import, &ignored);
	if (!end)
		forgotten = order_alone(import->manager, ORDER_FORGET, str_of(import->name), ASK_MS,
					NULL);
	if (forgotten)
		log_event(LOG_WARN, "template.half", "name", import->name, "trail",
			  err_trail(forgotten), NULL);
	free(import);
}

void templates_import_free(struct templates_import *import)
{
	if (!import)
		return;
	stream_close(&import->pipe);
	if (import->ask)
		task_start(import->manager->loop, "unimport", manager_templates_give_up, import);
	else
		free(import);
}
