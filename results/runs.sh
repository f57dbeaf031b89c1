#!/bin/sh
# Trains the runs of one table of results/tables.md, or of all: five seeds of each row, ten where five could not decide a claim.
#     sh results/runs.sh TABLE vocab.vectors=GLOVE data_dir=DIR hydra.launcher.n_jobs=2
# TABLE is one of those in the `case` below, or all (without series, layers, tuning and atlas, which need MINILM=FOLDER before `sh`). CORPORA="wikigold sst" before
# `sh` limits it to some experiments (not tuning; those of CoLA, MRPC and RTE are `classify`). Further arguments go to each command. SQuAD needs
# `python results/hold_out.py DIR` first. A second call trains what is missing. A failed run does not stop the others; the tables count it.
# The rows of `books` are runs of version 0.2, with which that biLM shipped; the archives keep them.
set -u
export OMP_NUM_THREADS=1  # another number of threads changes the last digits, and with them all figures
table=${1:?"TABLE is missing; see the first lines of $0"}
shift
main="wikigold ewt_propbank sst wnut17 snli"  # in the main rows of the first table
large="squad ontogum"                         # three rows: ten minutes to an hour a run
few="wikigold ewt_propbank"                   # where settings are compared
undecided="wikigold wnut17 sst"               # where "ELMo helps" was undecided with five seeds; five more were decided on 2026-11-24
seeds=1,2,3,4,5
folder=outputs/results

each() { # "CORPUS ..." SETTINGS...
    corpora=$1
    shift
    for corpus in $corpora; do
        case " ${CORPORA:-$corpora} " in *" $corpus "*) ;; *) continue ;; esac
        any=1
        ${PYTHON:-python} run.py -m --config-dir results/conf experiment="$corpus" seed=$seeds outputs_dir=$folder resume=true "$@" || failed=1
    done
}

tuned() { # ARGUMENTS...: SNLI with the best of as many draws for each side
    any=1
    ${PYTHON:-python} run.py --config-dir results/conf sweep=tune budget=16 experiment=snli seed=1 outputs_dir=outputs/tuning resume=true "$@" || failed=1
}

sides() { # COMMAND...: the three sides of results/plan.md
    "$@" encoder=none
    "$@" encoder=wiki
    "$@" encoder=transformer encoder.name=minilm encoder.model="${MINILM:?the folder of all-MiniLM-L6-v2}"
}

layers() { # CORPUS SETTINGS...: each layer of both encoders alone
    corpus=$1
    shift
    each "$corpus" encoder=transformer encoder.name=minilm encoder.model="${MINILM:?the folder of all-MiniLM-L6-v2}" elmo.mix=0,1,2,3,4,5,6 "$@"
    each "$corpus" encoder=wiki elmo.mix=0,1,2 "$@"
}

train() { # TABLE ARGUMENTS...
    table=$1
    shift
    case $table in
    encoders)
        each "$main $large" encoder=none "$@"
        each "$main $large" encoder=wiki elmo.mix=all,top "$@"
        seeds=6,7,8,9,10
        each "$undecided" encoder=wiki elmo.mix=none,all "$@"
        seeds=1,2,3,4,5
        each "$main" encoder=static "$@"
        each "$main" encoder=wiki encoder.pretrained=false "$@"
        each "$few" encoder=wiki 'encoder.directions=[forward]' "$@"
        each "$few" encoder=wiki elmo.mix=uniform,0,1 "$@" ;;
    lead) # does the top layer lead the mix? With another biLM, its layers' own lengths, no word vectors
        each ewt_propbank encoder=wiki elmo.mix=all,top "$@"
        each ewt_propbank encoder=wiki elmo.mix=all,top elmo.norm=none "$@"
        each ewt_propbank encoder=wiki elmo.mix=all,top "$@" vocab.vectors=null ;;
    norm) each "$few sst" encoder=wiki elmo.mix=all,top elmo.norm=none "$@" ;;
    lambda) each "$few" encoder=wiki elmo.l2=0.001,1 "$@" ;;
    places)
        each "$few sst" encoder=wiki 'elmo.at=[output],[input,output]' "$@"
        each snli encoder=wiki 'elmo.at=[input]' "$@" ;; # its own is [input,output]
    dropout) each "$few" encoder=wiki elmo.dropout=0 "$@" ;;
    fraction) # a smaller part has fewer steps an epoch: more epochs, so that dev stops each run
        each wikigold encoder=wiki elmo.mix=none,all fraction=0.1 fit.max_epochs=150 fit.patience=30 "$@"
        each ewt_propbank encoder=wiki elmo.mix=none,all fraction=0.01 fit.max_epochs=90 fit.patience=12 "$@"
        each sst encoder=wiki elmo.mix=none,all fraction=0.1 fit.max_epochs=150 fit.patience=30 "$@" ;;
    words) each "$few" encoder=wiki elmo.mix=none,all,top "$@" vocab.vectors=null ;;
    head)
        each wikigold encoder=wiki elmo.mix=none,all rnn=identity head=linear "$@"
        each sst encoder=wiki elmo.mix=none,all rnn=identity head=pooled task.model.pool=mean task.model.dropout=0.1 "$@" ;;
    trained)
        each "$few" encoder=wiki elmo.adapt=true "$@"
        each wikigold encoder=wiki finetune=full "$@" ;;
    series) # the second series, results/plan.md
        seeds=11,12,13,14,15 folder=outputs/series
        sides each "wikigold_average sst_average snli" "$@"
        sides each ewt_propbank embed=words_chars "$@"
        sides each classify data=cola,mrpc,rte "$@"
        sides each "ewt_parse wnut17 ontogum_average squad" "$@" ;;
    layers) # of the second series, each alone
        seeds=11,12,13,14,15 folder=outputs/series
        minilm="encoder.model=${MINILM:?the folder of all-MiniLM-L6-v2}"
        each "wikigold_average sst_average" encoder=wiki elmo.mix=0,1,2 "$@"
        each "wikigold_average sst_average" encoder=transformer encoder.name=minilm "$minilm" elmo.mix=0,3,6 "$@"
        each classify data=cola encoder=wiki elmo.mix=0,1,2 "$@"
        each classify data=cola encoder=transformer encoder.name=minilm "$minilm" elmo.mix=0,3,6 "$@" ;;
    tuning) sides tuned "$@" ;; # equal tuning, results/plan.md
    atlas) # the third series, results/atlas.md: layers alone; the mixes are of the second
        folder=outputs/atlas
        for seeds in 11,12,13 14,15; do
            layers ewt_parse "$@"
            layers ewt_propbank embed=words_chars "$@"
        done
        seeds=11,12,13,14,15
        each sst_average encoder=transformer encoder.name=minilm encoder.model="$MINILM" elmo.mix=1,2,4,5 "$@" ;;
    *) echo "$table: no such table" >&2; exit 2 ;;
    esac
}

[ "$table" = all ] && table="encoders lead norm lambda places dropout fraction words head trained"
for name in $table; do train "$name" "$@"; done
[ "${any:-}" ] || { echo "CORPORA=${CORPORA:-}: $table has none of them" >&2; exit 2; }
exit ${failed:-0}
