// Creates and frees the manager with its parts, and answers questions about all boxes: get, list,
// counts. Every function asks for access first. Records are borrowed until the caller's next wait.
#include "manager/manager.h"

#include "base/mem.h"
#include "manager/access.h"
#include "manager/build_steps.h"
#include "manager/named_secrets.h"
#include "manager/operations.h"
#include "manager/pools.h"
#include "manager/publish.h"
#include "manager/pulled.h"
#include "manager/queue.h"
#include "manager/registry_logins.h"
#include "manager/volumes.h"
#include "store/store.h"

struct manager *manager_new(const struct manager_options *options)
{
	struct manager *manager = mem_new_of(struct manager);

	manager->loop = options->loop;
	manager->ask = options->ask;
	manager->admit = options->admit;
	manager->store = options->store;
	manager->egress = options->egress;
	publish_open(manager);
	manager->sockets = options->sockets;
	manager->settled = !options->store;
	manager->rebooted = options->rebooted;
	manager->tapes_dir = options->tapes_dir;
	manager->boxes_max = options->boxes_max;
	manager->bounds = (struct spec_bounds){
		.memory_max = admit_memory(options->admit),
		.cpu_milli_max = admit_cpu_milli(options->admit),
		.output_max = options->output_max,
	};
	manager->by_id = map_new();
	manager->by_short = map_new();
	manager->by_name = map_new();
	accounts_init(&manager->accounts);
	manager->images = map_new();
	manager->secrets = map_new();
	manager->secret_uses = map_new();
	manager->registry_logins = map_new();
	manager->volumes = map_new();
	condition_init(&manager->volume_changed);
	manager->build_caches = map_new();
	condition_init(&manager->build_cache_freed);
	manager->queue_wait_ms = options->queue_wait_ms ? options->queue_wait_ms
							: MANAGER_QUEUE_WAIT_MS;
	manager->loops_max = options->loops_max ? options->loops_max : MANAGER_LOOPS_MAX;
	manager->queue = queue_new(manager, manager->queue_wait_ms);
	link_init(&manager->entries);
	condition_init(&manager->left);
	condition_init(&manager->operation_changed);
	manager->live_log = live_log_new();
	condition_init(&manager->attach_changed);
	box_prepare();
	return manager;
}

void manager_free(struct manager *manager)
{
	if (!manager)
		return;
	publish_close();
	list_each (at, &manager->entries)
		table_remove(link_of(at, struct entry, link));
	map_free(manager->by_id);
	map_free(manager->by_short);
	map_free(manager->by_name);
	map_free(manager->build_caches);
	queue_free(manager->queue);
	accounts_done(&manager->accounts);
	images_done(manager);
	operations_done(manager);
	build_steps_done(manager);
	pulled_done(manager);
	named_secrets_free(manager);
	registry_logins_free(manager);
	volumes_free(manager);
	live_log_free(manager->live_log);
	pools_free(manager);
	free(manager);
}

fallible manager_get(struct manager *manager, const struct who *who, struct str key,
		     const struct record **out)
{
	struct entry *entry;

	TRY(access_entry(manager, who, ACCESS_READ, key, &entry));
	queue_show(entry);
	*out = &entry->record;
	return OK;
}

fallible manager_page(struct manager *manager, const struct who *who, const struct env_map *labels,
		      uint64_t after, size_t max, const struct record **room, size_t *out_count,
		      uint64_t *out_last)
{
	size_t count = 0;
	uint64_t last = 0;
	bool more = false;

	TRY(access_ask(who, ACCESS_READ));
	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (entry->record.seq <= after ||
		    !access_sees(who, entry->record.tenant, entry->record.id) ||
		    !record_has_labels(&entry->record, labels))
			continue;
		more = count == max;
		if (more)
			break;
		queue_show(entry);
		room[count++] = &entry->record;
		last = entry->record.seq;
	}
	*out_count = count;
	*out_last = more ? last : 0;
	return OK;
}

fallible manager_flush(struct manager *manager)
{
	return manager->store ? store_flush(manager->store) : OK;
}

bool manager_is_ready(const struct manager *manager)
{
	return !manager->closing && manager->settled && ask_host(manager->ask);
}

uint64_t manager_changes(const struct manager *manager)
{
	return manager->changes;
}

int64_t manager_tenant_since(struct manager *manager, const char *tenant)
{
	return accounts_get(&manager->accounts, tenant)->tenant.created_ms;
}

const struct spec_bounds *manager_bounds(const struct manager *manager)
{
	return &manager->bounds;
}

struct manager_view manager_look_own(struct manager *manager, const struct who *who)
{
	struct manager_view view = {0};

	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (!access_sees(who, entry->record.tenant, entry->record.id))
			continue;
		view.boxes++;
		view.creating += entry->record.state == STATE_CREATING;
		view.failed += entry->record.state == STATE_FAILED;
		if (entry->box)
			view.execs += box_execs(entry->box);
	}
	return view;
}

struct manager_view manager_look(struct manager *manager)
{
	struct manager_view view = manager_look_own(manager, &WHO_COVE);

	view.created = manager->created;
	view.lost = manager->lost;
	view.host = ask_host(manager->ask);
	view.room = admit_look(manager->admit, loop_now(manager->loop));
	return view;
}
