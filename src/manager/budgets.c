// The sums of a budget are those of the store when it is loaded or set, and every difference of
// counters after that. Both are exact; only a difference that is written while the sums are read
// may count twice until the period ends. A budget is announced once a period, also over restarts.
#include "manager/budgets.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/metering.h"
#include "manager/sampler.h"
#include "store/budgets.h"

#define BODY_MAX 4096

struct budgets {
	struct link lines;
	size_t count;
};

static bool budget_covers(const struct budget_line *line, const char *tenant,
			  const struct env_map *labels)
{
	return cost_budget_covers(&line->budget, tenant, labels, CHARGE_SESSION);
}

static void budget_begin_period(struct budget_line *line)
{
	period_of(line->budget.period, clock_steady_ms(), &line->begin_ms, &line->end_ms);
}

static void budget_announce(struct manager *manager, struct budget_line *line, enum event_kind kind)
{
	const char *tenant = line->budget.of == COST_BUDGET_TENANT ? line->budget.tenant : "";

	log_event(LOG_INFO, event_word(kind), "budget", line->name, NULL);
	event_publish(kind, "tenant", tenant, "budget", line->name, NULL);
	if (manager->store)
		store_budgets_announced(manager->store, line->name,
					line->warned ? line->begin_ms : 0,
					line->exceeded ? line->begin_ms : 0);
}

static void budget_judge(struct manager *manager, struct budget_line *line)
{
	uint64_t used = cost_budget_used(&line->budget, &line->used, &manager->prices);
	unsigned __int128 scaled = (unsigned __int128)used * 100;
	bool near = scaled >= (unsigned __int128)line->budget.limit * COST_BUDGET_WARN_PERCENT;
	bool over = used >= line->budget.limit;

	if (near && !line->warned) {
		line->warned = true;
		budget_announce(manager, line, EVENT_BUDGET_NEAR);
	}
	if (over && !line->exceeded) {
		line->exceeded = true;
		budget_announce(manager, line, EVENT_BUDGET_OVER);
	}
	line->warned &= near;	// raised since
	line->exceeded &= over; // likewise
}

static void budgets_on_use(void *arg, const struct entry *entry, const struct usage *used)
{
	struct manager *manager = arg;

	list_each (at, &manager->budgets->lines) {
		struct budget_line *line = link_of(at, struct budget_line, link);

		if (budget_covers(line, entry->record.tenant, &entry->record.labels))
			usage_add(&line->used, used);
	}
}

static fallible budget_sum_up(struct manager *manager, struct budget_line *line)
{
	const struct cost_budget *budget = &line->budget;
	struct usage_query query = {.from_ms = line->begin_ms, .to_ms = line->end_ms};
	struct store_usage_item total;

	if (!manager->store)
		return OK;
	if (budget->of == COST_BUDGET_TENANT) {
		query.tenant = budget->tenant;
	} else if (budget->of == COST_BUDGET_SESSION) {
		query.session = budget->value;
	} else {
		query.label_key = budget->key;
		query.label_value = budget->value;
	}
	TRY(store_usage_total(manager->store, &query, &total));
	usage_add(&line->used, &total.used);
	return OK;
}

static struct budget_line *budget_find(const struct manager *manager, struct str name)
{
	list_each (at, &manager->budgets->lines) {
		struct budget_line *line = link_of(at, struct budget_line, link);

		if (str_is(name, line->name))
			return line;
	}
	return NULL;
}

// ----------------------------------------------------------------------------------------- load

static fallible budget_load(struct manager *manager, const struct store_budget *row)
{
	struct budget_line *line = mem_new_of(struct budget_line);
	auto_json body = NULL;
	struct err *err = json_read(str_of(row->body), &body);

	if (!err)
		err = cost_budget_read(body, &line->budget);
	if (err) {
		free(line);
		return err;
	}
	snprintf(line->name, sizeof(line->name), "%s", row->name);
	line->created_ms = row->created_ms;
	budget_begin_period(line);
	line->warned = row->warned_ms == line->begin_ms;
	line->exceeded = row->exceeded_ms == line->begin_ms;
	link_add(&manager->budgets->lines, &line->link);
	manager->budgets->count++;
	return budget_sum_up(manager, line);
}

void budgets_open(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_budget *rows = NULL;
	size_t count = 0;
	auto_err err = OK;

	manager->budgets = mem_new_of(struct budgets);
	link_init(&manager->budgets->lines);
	metering_subscribe(manager, budgets_on_use, manager);
	if (manager->store)
		err = store_budgets_load(manager->store, arena, &rows, &count);
	for (size_t i = 0; !err && i < count; i++) {
		auto_err lost = budget_load(manager, &rows[i]);

		if (lost)
			log_event(LOG_ERROR, "budget.unread", "budget", rows[i].name, "trail",
				  err_trail(lost), NULL);
	}
	if (err)
		log_event(LOG_ERROR, "manager.no_budgets", "trail", err_trail(err), NULL);
}

// ---------------------------------------------------------------------------------------- state

fallible budgets_ask(const struct manager *manager, const char *tenant,
		     const struct env_map *labels)
{
	if (!manager->budgets)
		return OK;
	list_each (at, &manager->budgets->lines) {
		const struct budget_line *line = link_of(at, struct budget_line, link);

		if (line->exceeded && budget_covers(line, tenant, labels))
			return err_hint(err_new(EXHAUSTED, RECORD_BUDGET,
						"the budget '%s' is used up", line->name),
					"wait for the next period, or have the budget raised");
	}
	return OK;
}

void budgets_look(struct manager *manager)
{
	list_each (at, &manager->budgets->lines) {
		struct budget_line *line = link_of(at, struct budget_line, link);

		if (clock_steady_ms() >= line->end_ms) {
			line->used = (struct usage){0};
			line->warned = line->exceeded = false;
			budget_begin_period(line);
		}
		budget_judge(manager, line);
	}
	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		auto_err err = budgets_ask(manager, entry->record.tenant, &entry->record.labels);

		entry->over_budget = err != NULL;
	}
}

// -------------------------------------------------------------------------------------- requests

static fallible budgets_absent(struct str name)
{
	return err_hint(err_absent("no_budget", "budget", name),
			"GET /v1/budgets lists those there are");
}

// The operator sees all, a tenant those of its own name.
static bool budget_is_seen(const struct who *who, const struct budget_line *line)
{
	if (who->role == WHO_OPERATOR && !who->box[0])
		return true;
	return line->budget.of == COST_BUDGET_TENANT && access_sees(who, line->budget.tenant, "");
}

static fallible budgets_ready(const struct manager *manager, const struct who *who)
{
	TRY(access_ask(who, ACCESS_OPERATOR));
	if (!manager->budgets || !manager->store)
		return err_new(UNAVAILABLE, "state_unwritable", "the state cannot be written");
	return OK;
}

static fallible budget_write(struct manager *manager, const struct budget_line *line)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	cost_budget_put(&out, &line->budget);
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_sys(0, "a budget did not fit");
	return store_budgets_put(manager->store, &(struct store_budget){
							 .name = line->name,
							 .body = body.at,
							 .created_ms = line->created_ms,
						 });
}

fallible budgets_set(struct manager *manager, const struct who *who, struct str name,
		     const struct json *body, const struct budget_line **out, bool *out_made)
{
	struct budget_line fresh = {0}, *line;

	TRY(budgets_ready(manager, who));
	if (!cost_budget_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is no name of a budget"),
				"a-z, 0-9, '.', '_' and '-', %d at most", COST_BUDGET_NAME_MAX);
	TRY(cost_budget_read(body, &fresh.budget));
	if (!budget_find(manager, name) && manager->budgets->count >= BUDGETS_MAX)
		return err_new(EXHAUSTED, "too_many_budgets", "there are %d budgets", BUDGETS_MAX);
	memcpy(fresh.name, name.at, name.len);
	fresh.created_ms = clock_steady_ms();
	budget_begin_period(&fresh);
	TRY(budget_write(manager, &fresh), "write the budget");
	sampler_catch_up(manager, 0);
	sampler_settle_all(manager);
	err_free(store_flush(manager->store));
	TRY(budget_sum_up(manager, &fresh));
	line = budget_find(manager, str_of(fresh.name));
	*out_made = !line;
	if (line) {
		fresh.created_ms = line->created_ms;
		link_drop(&line->link);
		free(line);
	} else {
		manager->budgets->count++;
	}
	line = mem_new_of(struct budget_line);
	*line = fresh;
	link_add(&manager->budgets->lines, &line->link);
	budgets_look(manager);
	*out = line;
	return OK;
}

fallible budgets_drop(struct manager *manager, const struct who *who, struct str name)
{
	struct budget_line *line;
	char text[COST_BUDGET_NAME_MAX + 1];

	TRY(budgets_ready(manager, who));
	line = budget_find(manager, name);
	if (!line)
		return budgets_absent(name);
	memcpy(text, line->name, sizeof(text));
	TRY(store_budgets_drop(manager->store, text), "remove the budget");
	line = budget_find(manager, str_of(text));
	if (line) {
		link_drop(&line->link);
		free(line);
		manager->budgets->count--;
	}
	budgets_look(manager);
	return OK;
}

fallible budgets_get(const struct manager *manager, const struct who *who, struct str name,
		     const struct budget_line **out)
{
	const struct budget_line *line;

	TRY(access_ask(who, ACCESS_READ));
	line = manager->budgets ? budget_find(manager, name) : NULL;
	if (!line || !budget_is_seen(who, line))
		return budgets_absent(name);
	*out = line;
	return OK;
}

fallible budgets_ask_list(const struct who *who)
{
	return access_ask(who, ACCESS_READ);
}

const struct budget_line *budgets_next(const struct manager *manager, const struct who *who,
				       const struct budget_line *at)
{
	const struct link *head = manager->budgets ? &manager->budgets->lines : NULL;
	const struct link *next = !head ? NULL : at ? at->link.next : head->next;

	for (; next && next != head; next = next->next) {
		const struct budget_line *line = link_of(next, struct budget_line, link);

		if (budget_is_seen(who, line))
			return line;
	}
	return NULL;
}

void budgets_put(struct json_out *out, const struct manager *manager,
		 const struct budget_line *line)
{
	uint64_t used = cost_budget_used(&line->budget, &line->used, &manager->prices);
	char cost[USAGE_COST_ROOM];

	usage_cost_text(usage_cost(&line->used, &manager->prices), cost);
	json_begin(out, '{');
	json_put_text(out, "name", line->name);
	cost_budget_put(out, &line->budget);
	json_put_text(out, "state", line->exceeded ? "exceeded" : line->warned ? "warning" : "ok");
	json_put_begin(out, "used", '{');
	json_put_text(out, "cost", cost);
	json_key(out, "cpuSeconds");
	json_add_double(out, (double)line->used.cpu_us / 1000000);
	json_put_int(out, "requests", (int64_t)line->used.requests);
	json_end(out, '}');
	json_key(out, "part");
	if (line->budget.limit)
		json_add_double(out, (double)used / (double)line->budget.limit);
	else
		json_add_null(out);
	json_put_time(out, "periodStart", line->begin_ms);
	json_put_time(out, "periodEnd", line->end_ms);
	json_put_time(out, "createdAt", line->created_ms);
	json_end(out, '}');
}
