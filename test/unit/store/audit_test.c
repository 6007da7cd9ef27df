// The audit log: its chain, its cuts, and what a dropped tenant leaves of it and of the events.
#include "store/audit.h"

#include "backends.h"
#include "store/agent.h"
#include "store/keys.h"
#include "unit/store/writes.h"

EACH_BACKEND(audit, "the audit chain holds, and shows what was changed, taken out or cut off")
{
	struct store_audit row = {.time_ms = 5, .who = "ci", .action = "box.delete", .target = "b"};
	struct store_audit_proof proof;
	struct store_audit *rows;
	uint64_t id = 0;
	size_t page = 0;

	for (int i = 0; i < 3; i++)
		CHECK_OK(add_audit(house->store, &row, &id));
	CHECK(id == 3);
	store_audit_queue(house->store, &row, NULL, NULL);
	CHECK_OK(store_flush(house->store));
	reopen(house);
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0 && proof.count == 4);
	CHECK_OK(store_audit_page(house->store, 1, "", false, 2, house->arena, &rows, &page));
	CHECK(page == 2 && rows[0].id == 2);
	CHECK_STR(rows[0].who, "ci");
	CHECK_OK(garble(house->store, "UPDATE audit SET who = 'cii' WHERE id = 2"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 2);
	CHECK_OK(garble(house->store, "UPDATE audit SET who = 'ci' WHERE id = 2"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0);
	CHECK_OK(garble(house->store, "DELETE FROM audit WHERE id = 4"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 4);
	CHECK_OK(garble(house->store, "DELETE FROM audit WHERE id = 2"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 3);
}

EACH_BACKEND(long_chain, "a chain of many pages is read to its end")
{
	struct store_audit row = {.who = "ci", .action = "x"};
	struct store_audit_proof proof;

	for (int i = 0; i < 1234; i++)
		store_audit_queue(house->store, &row, NULL, NULL);
	CHECK_OK(store_flush(house->store));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0 && proof.count == 1234);
	CHECK_OK(garble(house->store, "UPDATE audit SET action = 'y' WHERE id = 1001"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 1001);
	CHECK_OK(garble(house->store, "UPDATE audit SET action = 'x' WHERE id = 1001;"
				      "DELETE FROM audit WHERE id = 1000"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 1001);
}

EACH_BACKEND(pruned, "an audit log that was pruned is whole from its cut on, and a cut that no row "
		     "tells of shows")
{
	struct store_audit row = {.time_ms = 1000, .who = "ci", .action = "x"};
	struct store_audit_proof proof;
	struct store_audit *rows;
	uint64_t count = 0;
	size_t page = 0;

	for (int i = 0; i < 100; i++) {
		row.time_ms = 1000 + i;
		CHECK_OK(add_audit(house->store, &row, NULL));
	}
	CHECK_OK(store_audit_prune(house->store, 1100, 1000, 90, &count));
	CHECK(count == 0); // within an eighth of what is kept
	CHECK_OK(store_audit_prune(house->store, 1100, 1000, 50, &count));
	CHECK(count == 50);
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0 && proof.count == 51 && proof.cut == 50);
	CHECK_OK(store_audit_prune(house->store, 1440, 350, 1000, &count));
	CHECK(count == 0); // the oldest is not an eighth older than it may be
	CHECK_OK(store_audit_prune(house->store, 1450, 350, 1000, &count));
	CHECK(count == 50); // all but the row that tells of the first cut
	reopen(house);
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0 && proof.cut == 100 && proof.count == 2);
	CHECK_OK(store_audit_page(house->store, 0, NULL, false, 9, house->arena, &rows, &page));
	CHECK(page == 2 && rows[0].id == 101 && rows[1].id == 102);
	CHECK_STR(rows[1].action, STORE_AUDIT_PRUNE);
	CHECK_OK(add_audit(house->store, &row, &count));
	CHECK(count == 103);
	CHECK_OK(garble(house->store,
			"UPDATE kv SET value = '101 ' || (SELECT lower(hex(hash)) FROM"
			" audit WHERE id = 101) WHERE name = 'audit/cut';"
			"DELETE FROM audit WHERE id = 101"));
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad != 0);
}

EACH_BACKEND(dropped, "of a dropped tenant nothing is left to one of the same name, and its "
		      "history to the operator")
{
	struct store_tenant tenant = {.id = "acme", .body = "{}", .created_ms = 1};
	struct store_event event = {.tenant = "acme", .kind = "k"};
	struct store_audit row = {.tenant = "acme", .who = "a", .action = "x"};
	struct store_agent_change session = {.row = {.kind = STORE_SESSION,
						     .id = "acme__s",
						     .tenant = "acme",
						     .state = "live",
						     .body = STR("opaque")}};
	struct store_audit_proof proof;
	struct store_audit *rows;
	struct store_events page;
	uint64_t first = 0;
	size_t count = 9;

	CHECK_OK(store_tenants_put(house->store, &tenant));
	CHECK_OK(add_events(house->store, &event, 1, &first));
	CHECK_OK(add_audit(house->store, &row, NULL));
	CHECK_OK(store_agent_commit(house->store, &session, 1));
	CHECK_OK(store_tenants_drop(house->store, "acme"));
	CHECK_OK(add_events(house->store, &event, 1, &first)); // the last word about it
	CHECK_OK(store_tenants_put(house->store, &tenant));
	page = PAGE(.tenant = "acme", .own = true);
	CHECK(page.count == 0 && page.newest == 0 && !page.missed);
	page = PAGE(.tenant = "acme");
	CHECK(page.count == 2);
	CHECK_OK(store_audit_page(house->store, 0, "acme", true, 9, house->arena, &rows, &count));
	CHECK(count == 0);
	CHECK_OK(store_audit_page(house->store, 0, "acme", false, 9, house->arena, &rows, &count));
	CHECK(count == 1);
	CHECK_OK(store_audit_verify(house->store, &proof));
	CHECK(proof.bad == 0);
	CHECK(!is_session_used(house->store, "acme__s"));
	CHECK_OK(add_events(house->store, &event, 1, &first));
	page = PAGE(.tenant = "acme", .own = true);
	CHECK(page.count == 1 && page.at[0].id == 1 && page.oldest == 1);
	CHECK_OK(store_tenants_put(house->store, &tenant)); // other terms: it is the same
	page = PAGE(.tenant = "acme", .own = true);
	CHECK(page.count == 1);
}
