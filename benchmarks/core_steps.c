/* Queries of the core one after another, and nothing else: what queries.py times as a step in C. */
#include "rheostat.h"

typedef rheo_status query_function(const rheo_model *, const rheo_position *, const rheo_state *, int32_t, rheo_state *,
                                   rheo_answer *, const rheo_choice *, int32_t, int32_t *, float *, int32_t *,
                                   rheo_scratch *, rheo_error *);

/* Read `count` words, and find the three best next words that the choice allows after each. */
int run_steps(query_function *query, const rheo_model *model, const rheo_position *position, rheo_state *state,
              rheo_answer *answer, rheo_scratch *scratch, const rheo_choice *choice, const int32_t *words,
              int32_t count) {
    int32_t best[3], found;
    float log_probabilities[3];
    for (int32_t place = 0; place < count; place++) {
        rheo_status status = query(model, position, state, words[place], state, answer, choice, 3, best,
                                   log_probabilities, &found, scratch, NULL);
        if (status) return status;
    }
    return 0;
}
