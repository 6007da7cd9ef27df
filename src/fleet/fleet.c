#include "fleet/fleet.h"

#include "base/mem.h"
#include "fleet/access.h"
#include "fleet/images.h"
#include "fleet/queue.h"
#include "store/store.h"

struct fleet *fleet_new(const struct fleet_options *options)
{
	struct fleet *fleet = mem_new_of(struct fleet);

	fleet->loop = options->loop;
	fleet->ask = options->ask;
	fleet->admit = options->admit;
	fleet->store = options->store;
	fleet->egress = options->egress;
	tell_init(&fleet->tell, options->store);
	fleet->sockets = options->sockets;
	fleet->settled = !options->store;
	fleet->rebooted = options->rebooted;
	fleet->tapes_dir = options->tapes_dir;
	fleet->boxes_max = options->boxes_max;
	fleet->bounds = (struct spec_bounds){
		.memory_max = admit_memory(options->admit),
		.cpu_milli_max = admit_cpu_milli(options->admit),
		.output_max = options->output_max,
	};
	fleet->by_id = map_new();
	fleet->by_short = map_new();
	fleet->by_name = map_new();
	accounts_init(&fleet->accounts);
	fleet->images = map_new();
	fleet->queue_wait_ms = options->queue_wait_ms ? options->queue_wait_ms
						      : FLEET_QUEUE_WAIT_MS;
	fleet->loops_max = options->loops_max ? options->loops_max : FLEET_LOOPS_MAX;
	fleet->queue = queue_new(fleet, fleet->queue_wait_ms);
	link_init(&fleet->entries);
	bell_init(&fleet->left);
	bell_init(&fleet->ways);
	box_prepare();
	return fleet;
}

void fleet_free(struct fleet *fleet)
{
	if (!fleet)
		return;
	list_each (at, &fleet->entries)
		table_remove(link_of(at, struct entry, link));
	map_free(fleet->by_id);
	map_free(fleet->by_short);
	map_free(fleet->by_name);
	queue_free(fleet->queue);
	accounts_done(&fleet->accounts);
	images_done(fleet);
	free(fleet);
}

fallible fleet_get(struct fleet *fleet, const struct who *who, struct str key,
		   const struct record **out)
{
	struct entry *entry;

	TRY(access_ask(who, ACCESS_READ));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	queue_show(entry);
	*out = &entry->record;
	return OK;
}

fallible fleet_page(struct fleet *fleet, const struct who *who, const struct pairs *labels,
		    uint64_t after, size_t max, const struct record **room, size_t *out_count,
		    uint64_t *out_last)
{
	size_t count = 0;
	uint64_t last = 0;
	bool more = false;

	TRY(access_ask(who, ACCESS_READ));
	list_each (at, &fleet->entries) {
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

fallible fleet_flush(struct fleet *fleet)
{
	return fleet->store ? store_flush(fleet->store) : OK;
}

bool fleet_is_ready(const struct fleet *fleet)
{
	return !fleet->closing && fleet->settled && ask_host(fleet->ask);
}

uint64_t fleet_changes(const struct fleet *fleet)
{
	return fleet->changes;
}

int64_t fleet_tenant_since(struct fleet *fleet, const char *tenant)
{
	return accounts_get(&fleet->accounts, tenant)->tenant.created_ms;
}

const struct spec_bounds *fleet_bounds(const struct fleet *fleet)
{
	return &fleet->bounds;
}

struct fleet_view fleet_look(struct fleet *fleet)
{
	struct fleet_view view = {
		.boxes = map_count(fleet->by_id),
		.created = fleet->created,
		.lost = fleet->lost,
		.host = ask_host(fleet->ask),
		.room = admit_look(fleet->admit, loop_now(fleet->loop)),
	};

	list_each (at, &fleet->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		view.creating += entry->record.state == STATE_CREATING;
		view.failed += entry->record.state == STATE_FAILED;
		if (entry->box)
			view.execs += box_execs(entry->box);
	}
	return view;
}

struct fleet_view fleet_look_own(struct fleet *fleet, const struct who *who)
{
	struct fleet_view view = {0};

	list_each (at, &fleet->entries) {
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
